"""The PROXY protocol, versions 1 and 2: whose connection a proxy is passing on."""
