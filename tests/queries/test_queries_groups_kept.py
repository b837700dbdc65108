def test_a_parameter_that_pages_and_chooses_rows_is_free() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM pay {} GROUP BY dept ORDER BY dept LIMIT @age"
    page = parameter("age:INT64", minimum=0, maximum=100)
    load(sql.format(""), "dept:STRING n:INT64", page)
    with pytest.raises(TemplateError, match="@age is not one of a few single values"):
        load(sql.format("WHERE age > @age"), "dept:STRING n:INT64", page)
