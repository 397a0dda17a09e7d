"""Resources of CoAP's publish-subscribe draft: /ps, /ps/{id} and /ps/data/{id} (draft-ietf-core-coap-pubsub-20)."""
