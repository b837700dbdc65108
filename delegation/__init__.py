"""How one agent asks another over A2A: verified cards, one leaf for one call, a typed reply, verified provenance."""
