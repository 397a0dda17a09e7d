"""The cluster: replicas, controllers, forwarding gateways, registration at name servers, and the operator's commands."""
