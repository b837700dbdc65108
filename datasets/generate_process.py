"""The purification process the shipped batches run on: products, sites, steps, controls, deviations.

Constants are typical published values of an antibody platform (see README.md), not any company's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Product:
    """``titre`` is the median in g/L; ``cex`` the mean step yield, where products differ most."""

    code: str
    modality: str
    scale_l: int
    titre: float
    cex: float
    hmw: float
    sites: tuple[str, ...]


PRODUCTS: Final = (
    Product("PMB-101", "IgG1 antibody", 2000, 4.2, 0.925, 1.15, ("Dublin", "Singapore")),
    Product("PMB-204", "IgG4 antibody", 2000, 3.1, 0.905, 1.60, ("Basel", "Singapore")),
    Product("FCF-317", "Fc-fusion protein", 1000, 1.9, 0.860, 2.40, ("Durham", "Basel")),
)
ZONES: Final = {
    "Dublin": "Europe/Dublin",
    "Basel": "Europe/Zurich",
    "Singapore": "Asia/Singapore",
    "Durham": "America/New_York",
}


@dataclass(frozen=True, slots=True)
class Step:
    """Nominal behaviour of a step. Durations are hours, densities g/L resin or g/m2 membrane."""

    name: str
    medium: str | None
    yield_mean: float
    yield_sd: float
    hours: float
    density: float | None
    per_membrane: bool
    ph: float
    ph_sd: float
    conductivity: float
    residence_min: float | None
    pool_g_l: float


STEPS: Final = (
    Step("protein_a_capture", "MabSelect SuRe LX", 0.957, 0.012, 24, 40, False, 3.60, 0.06, 13.2, 5.0, 15.0),
    Step("viral_inactivation", None, 0.993, 0.003, 3.5, None, False, 3.58, 0.03, 3.4, 75.0, 14.5),
    Step("cex_polishing", "Capto S ImpAct", 0.925, 0.014, 12, 62, False, 5.20, 0.05, 4.6, 6.0, 11.0),
    Step("aex_polishing", "Capto Q", 0.973, 0.006, 7, 130, False, 7.80, 0.06, 5.2, 3.5, 8.0),
    Step("viral_filtration", "Planova BioEX", 0.985, 0.004, 5, 620, True, 7.40, 0.06, 5.4, None, 7.8),
    Step("uf_df", "Pellicon 3 Ultracel 30 kDa", 0.972, 0.007, 6, 240, True, 6.00, 0.03, 5.4, None, 80.0),
)

# Median and log-sd of each control after each step; a step that is absent does not test it.
CONTROLS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "hcp_ppm": {
        "protein_a_capture": (1150, 0.40),
        "cex_polishing": (120, 0.38),
        "aex_polishing": (12, 0.35),
        "uf_df": (10, 0.35),
    },
    "dna_ppb": {
        "protein_a_capture": (480, 0.55),
        "cex_polishing": (38, 0.50),
        "aex_polishing": (0.8, 0.45),
        "uf_df": (0.6, 0.45),
    },
    "protein_a_ppm": {"protein_a_capture": (12, 0.30), "cex_polishing": (2.2, 0.30), "uf_df": (1.1, 0.25)},
    "endotoxin_eu_mg": {"protein_a_capture": (0.03, 0.50), "uf_df": (0.012, 0.50)},
}
HMW_FACTOR: Final = {
    "protein_a_capture": 2.3,
    "viral_inactivation": 2.5,
    "cex_polishing": 1.0,
    "aex_polishing": 0.95,
    "uf_df": 1.05,
}


@dataclass(frozen=True, slots=True)
class Event:
    """A deviation that explains an outlier; factors multiply the nominal value."""

    note: str
    step_yield: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    final: Mapping[str, float] = field(default_factory=dict)
    titre: float = 1.0
    disposition: str | None = None


EVENTS: Final[Mapping[int, Event]] = {
    17: Event(
        "Air entrainment during CEX packing; column channelled and product broke through.", {"cex_polishing": 0.78}
    ),
    43: Event(
        "Protein A resin fouling at cycle 142; breakthrough at the end of load.",
        {"protein_a_capture": 0.82},
        {"protein_a_capture": {"load_density_g_l": 1.27}},
    ),
    58: Event(
        "pH excursion in the low-pH hold: 3.31 for 128 min; aggregates formed.",
        {"cex_polishing": 0.90},
        {"viral_inactivation": {"operating_ph": 0.925, "residence_min": 1.7}},
        {"hmw_pct": 4.1},
        disposition="rejected",
    ),
    76: Event(
        "AEX load conductivity 14 mS/cm after a mixing error; impurity clearance lost.",
        {},
        {"aex_polishing": {"conductivity_ms_cm": 2.7}},
        {"hcp_ppm": 17.0, "dna_ppb": 42.0},
        disposition="rejected",
    ),
    88: Event("Viral filter clogged at 70 % of load; second filter installed.", {"viral_filtration": 0.86}),
    101: Event("Bioreactor foam-out; early harvest on day 9.", titre=0.34),
    119: Event("UF/DF membrane leak found at post-use integrity test; product in permeate.", {"uf_df": 0.81}),
    133: Event("N-1 perfusion seed trial; high titre.", titre=1.85),
    152: Event("Temperature excursion of the CEX pool, 27 C for 19 h.", final={"hmw_pct": 3.2}, disposition="rejected"),
    164: Event(
        "Clarification filter breach; host cell protein high at release.",
        final={"hcp_ppm": 19.0},
        disposition="rejected",
    ),
    187: Event(
        "Mass of the last pool under review: A280 dilution factor doubtful.", {"uf_df": 1.26}, disposition="pending"
    ),
    205: Event(
        "CEX load conductivity 9.8 mS/cm; equilibration buffer made up wrong.",
        {"cex_polishing": 0.83},
        {"cex_polishing": {"conductivity_ms_cm": 2.1}},
    ),
    221: Event("Nuclease step missed; residual DNA high.", final={"dna_ppb": 55.0}, disposition="rejected"),
}
REMARKS: Final = (
    "Resin fouling suspected; CIP extended by 30 min.",
    "Buffer hold exceeded 24 h; assessed and accepted.",
    "Minor air in the inlet line cleared before load.",
    "New lot of depth filters for clarification.",
    "Peak shoulder on CEX elution; pooling narrowed.",
    "UV detector replaced between cycles.",
    "Pool held overnight at 5 C before viral filtration.",
    "Operator change during load; no impact.",
    "Conductivity probe recalibrated after the batch.",
)
