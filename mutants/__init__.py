"""``make mutants``: plants one fault after another in a copy of the tree and shows which test kills each."""
