"""Use cases: they carry out commands over the ports. They import no protocol and no store."""
