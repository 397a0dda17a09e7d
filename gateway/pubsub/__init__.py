"""Topics of CoAP's publish-subscribe draft, as configuration beside the log (docs/decisions/0075-topics-of-coap-pubsub.md)."""
