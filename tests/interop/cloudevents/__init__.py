"""Events of SDKs and tools of the CloudEvents project, to a node and out of one."""
