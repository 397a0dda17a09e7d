"""What CloudEvents over HTTP has to do, point by point, and the tests that show it. Each test that is named exists."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
CE: Final = "protocols/cloudevents"
HTTP: Final = "protocols/http"
EVENTS: Final = "protocols/http/handlers/test_events.py"
FORMATS: Final = "protocols/http/handlers/test_event_formats.py"
READER: Final = "protocols/http/http1/test_reader.py"
WEBHOOK: Final = "protocols/http/handlers/test_webhook.py"
SDKS: Final = "interop/cloudevents/test_sdks.py"
DELIVERY: Final = "interop/webhooks/test_delivery.py"


class Row(NamedTuple):
    """One point.

    area    what it belongs to
    point   what has to be so
    tests   `file: test`, files from tests/ on
    """

    area: str
    point: str
    tests: tuple[str, ...]


MAPPING: Final = (
    Row("id", "is the key, and with the source what an event is stored once by", (
        f"{CE}/test_message.py: test_attributes_are_properties",
        "gateway/usecase/publish/test_once.py: test_by_source_and_id_of_an_event",
        "interop/test_stored_once.py: test_http_events_and_mqtt",
    )),
    Row("attributes", "are properties with the names of the RocketMQ binding", (
        f"{CE}/test_message.py: test_attributes_are_properties",
        f"{CE}/test_message.py: test_other_messages_are_no_events",
        "interop/test_model.py: test_an_event_by_http_and_a_traced_message_reach_everybody_whole",
    )),
    Row("datacontenttype", "is the content type; CE_contenttype of the older binding is read", (
        f"{CE}/test_message.py: test_the_content_type_of_the_rocketmq_binding_is_read",
        f"{CE}/test_features.py: test_rocketmq_binary_content_mode",
        f"{CE}/test_features.py: test_rocketmq_structured_content_mode",
    )),
    Row("data", "is the body, byte for byte: raw JSON text, a string, decoded base64", (
        f"{CE}/test_json.py: test_data_stays_what_was_sent",
        f"{CE}/test_json.py: test_any_json_data_comes_back_byte_for_byte",
        f"{CE}/test_json.py: test_any_bytes_survive_as_base64",
        f"{EVENTS}: test_structured_mode_keeps_the_text_of_data",
    )),
    Row("type", "is the tag where a tag can have it", (
        f"{CE}/test_message.py: test_attributes_are_properties",
        f"{CE}/test_message.py: test_a_type_that_is_no_tag_is_none",
    )),
    Row("extensions", "partitionkey orders, expirytime expires, deliverytime delays, trace context is that of the message", (
        f"{CE}/test_message.py: test_extensions_with_a_meaning",
        f"{CE}/test_message.py: test_the_trace_context_of_a_message_is_an_attribute_unless_the_event_has_its_own",
        f"{CE}/test_message.py: test_a_time_keeps_its_offset_and_its_digits",
        f"{EVENTS}: test_a_delayed_event_has_no_place_yet",
        "simulation/test_expiry.py: test_nobody_gets_a_message_after_its_expiry",
    )),
    Row("topic", "is in the path, or chosen by rules over source and type", (
        f"{EVENTS}: test_sub_levels_are_the_path",
        f"{EVENTS}: test_bad_paths",
        f"{HTTP}/handlers/test_event_routes.py: test_the_first_rule_that_fits_chooses",
        f"{HTTP}/handlers/test_event_routes.py: test_an_event_that_no_rule_fits_is_404",
        f"{HTTP}/handlers/test_event_routes.py: test_a_rule_that_cannot_be_meant_is_an_error_of_the_configuration",
        "interop/cloudevents/test_receiving.py: test_events_are_routed_by_source_and_type",
    )),
    Row("batch", "is stored event by event, and answered by index", (
        f"{EVENTS}: test_a_batch_is_answered_event_by_event",
        f"{EVENTS}: test_one_refused_event_is_named_and_the_others_are_stored",
        f"{EVENTS}: test_a_part_that_the_store_refuses_fails_alone",
        f"{HTTP}/handlers/test_event_routes.py: test_each_event_of_a_batch_goes_to_its_own_topic",
    )),
    Row("modes", "three in and three out, in each format", (
        f"{EVENTS}: test_binary_mode_is_stored_and_answered_204",
        f"{EVENTS}: test_whole_batches",
        f"{FORMATS}: test_an_event_of_a_binary_format_is_the_same_message",
        f"{FORMATS}: test_the_latest_value_comes_in_the_format_that_is_asked_for",
        f"{DELIVERY}: test_forms_of_delivery",
        f"{DELIVERY}: test_events_are_delivered_in_each_format",
        f"{SDKS}: test_what_an_sdk_sends_the_python_sdk_receives",
        f"{SDKS}: test_an_sdk_receives_what_the_python_sdk_sends",
    )),
    Row("MQTT", "an event is the same message, in binary and structured mode, in each format that 5.0 can name", (
        "protocols/mqtt/test_cloudevents.py: test_an_event_that_is_published_is_that_of_http",
        "protocols/mqtt/test_cloudevents.py: test_a_structured_event_is_that_of_http_and_is_forwarded_as_it_was_sent",
        "protocols/mqtt/test_cloudevents.py: test_an_event_in_a_binary_format_is_that_of_http_and_is_forwarded_as_it_was_sent",
        f"{CE}/test_features.py: test_mqtt_binary_content_mode",
        f"{CE}/test_features.py: test_mqtt_structured_content_mode",
    )),
)  # fmt: skip

POINTS: Final = (
    Row("mode", "is chosen by the prefix of Content-Type, in any case; ce- fields change nothing", (
        f"{CE}/test_binding.py: test_content_type_alone_chooses_the_mode",
        f"{EVENTS}: test_fields_of_binary_mode_change_no_structured_event",
    )),
    Row("unknown format", "of CloudEvents is 415, with those that are known", (
        f"{CE}/test_binding.py: test_formats_not_spoken_are_told_apart_from_bad_events",
        f"{FORMATS}: test_who_sends_an_unknown_format_is_told_those_that_are_known",
    )),
    Row("binary", "fields in any case, no ce-datacontenttype, the body unmodified, no body is no data", (
        f"{CE}/test_binding.py: test_the_body_is_the_data_and_content_type_its_type",
        f"{CE}/test_binding.py: test_bad_headers_are_refused_by_name",
        f"{EVENTS}: test_names_of_fields_have_any_case_and_no_body_is_no_data",
        f"{CE}/test_features.py: test_http_binary_content_mode",
    )),
    Row("values in", "a quoted string first, then one percent-decoding; what is no UTF-8 is refused", (
        f"{CE}/test_binding.py: test_header_values_are_decoded_exactly_once",
        f"{CE}/test_binding.py: test_header_values_that_are_no_text_are_refused",
    )),
    Row("values out", "space, quotes, percent and all outside U+0021 to U+007E are escaped", (
        f"{CE}/test_binding.py: test_values_go_out_escaped",
        f"{CE}/test_binding.py: test_binary_mode_round_trip",
    )),
    Row("attributes", "required ones are never invented, and every one is of its type", (
        f"{CE}/test_json.py: test_required_attributes_are_never_invented",
        f"{CE}/test_binding.py: test_a_missing_attribute_is_named",
        f"{CE}/test_json.py: test_source_is_a_uri_reference",
        f"{CE}/test_json.py: test_uri_references_are_taken",
        f"{CE}/test_json.py: test_bad_members_are_refused_by_name",
        f"{CE}/test_instant.py: test_everything_else_is_no_instant",
        f"{CE}/test_message.py: test_a_time_keeps_its_offset_and_its_digits",
    )),
    Row("specversion", "is 1.0; 0.3 by a setting", (
        f"{CE}/test_json.py: test_other_versions_are_refused",
        f"{CE}/test_version.py: test_it_is_refused_unless_it_is_asked_for",
        f"{CE}/test_version.py: test_it_becomes_an_event_of_1_0",
        f"{FORMATS}: test_events_of_0_3_are_accepted_by_a_setting",
    )),
    Row("JSON", "types of attributes, null, data beside data_base64, duplicates, charset", (
        f"{CE}/test_json.py: test_attributes_get_their_canonical_strings",
        f"{CE}/test_json.py: test_bad_members_are_refused_by_name",
        f"{CE}/test_json.py: test_data_stays_what_was_sent",
        f"{CE}/test_features.py: test_http_structured_content_mode",
    )),
    Row("protobuf, Avro", "the formats of the specification, against its schemas and a library", (
        f"{CE}/test_protobuf.py: test_every_type_of_attribute_has_its_canonical_string",
        f"{CE}/test_protobuf.py: test_what_is_encoded_is_decoded",
        f"{CE}/test_avro.py: test_every_type_of_attribute_has_its_canonical_string",
        f"{CE}/test_avro.py: test_the_reference_reads_what_goes_out",
    )),
    Row("JSON batch", "an array, maybe empty, of whole events", (
        f"{CE}/test_json.py: test_a_batch_is_judged_element_by_element",
        f"{EVENTS}: test_whole_batches",
    )),
    Row("size", "64 KiB and more pass both ways; 413 above the limits", (
        f"{EVENTS}: test_sizes_are_those_of_the_content_mode",
        f"{EVENTS}: test_an_event_of_a_batch_is_as_large_as_a_single_one_at_most",
        "interop/cloudevents/test_receiving.py: test_a_large_event_is_taken_and_delivered",
    )),
    Row("answer", "204 or 200 when durable, 202 when asked for, problem documents that name the attribute", (
        f"{EVENTS}: test_preferences",
        f"{EVENTS}: test_refusals_are_problem_documents_that_name_the_attribute",
        f"{EVENTS}: test_a_refusal_has_the_status_that_webhook_senders_know",
        f"{HTTP}/test_status.py: test_every_outcome_has_a_row",
    )),
    Row("token", "in Authorization or in the query; the field first; in no log, and the answer is private", (
        f"{FORMATS}: test_a_token_may_be_in_the_query_and_the_field_comes_first",
        f"{FORMATS}: test_a_request_that_is_repeated_with_a_new_token_is_the_same",
        "interop/cloudevents/test_receiving.py: test_a_token_of_the_query_is_in_no_log",
    )),
    Row("TLS", "is required from other machines for deliveries of WebHooks", (
        f"{WEBHOOK}: test_deliveries_outside_tls_are_refused_and_handshakes_get_no_consent",
        f"{WEBHOOK}: test_senders_inside_tls_and_on_this_machine_are_served",
        "interop/cloudevents/test_receiving.py: test_a_delivery_inside_tls_is_taken",
    )),
    Row("WebHook reply", "never 3xx; 200 with a body, 204 without, 202, 410, 415, and 429 with Retry-After", (
        "interop/cloudevents/test_receiving.py: test_a_target_that_was_deleted_is_gone_for_deliveries",
        f"{EVENTS}: test_a_refusal_has_the_status_that_webhook_senders_know",
        f"{EVENTS}: test_preferences",
        f"{HTTP}/test_status.py: test_only_what_may_be_tried_again_says_when",
    )),
    Row("handshake as target", "Allow, the origin and the rate when there is consent, neither when there is none", (
        f"{WEBHOOK}: test_the_webhook_handshake",
        f"{WEBHOOK}: test_consent_is_configured",
    )),
    Row("callback as target", "consent is sent to a callback on the list, within bounds, to addresses that sinks may have", (
        f"{WEBHOOK}: test_consent_goes_to_the_callback_instead_of_the_answer",
        f"{WEBHOOK}: test_a_callback_elsewhere_is_not_called_and_the_answer_has_the_consent",
        f"{WEBHOOK}: test_nobody_is_called_back_unless_a_host_is_named_and_the_origin_may_deliver",
        "gateway/webhooks/test_sender_consent.py: test_a_flood_of_handshakes_costs_few_requests",
        "interop/cloudevents/test_receiving.py: test_consent_is_sent_to_a_callback",
    )),
    Row("handshake as sender", "the exact URL, origin and rate; consent by the field alone; again each day and after 401", (
        "gateway/webhooks/delivery/test_sink_consent.py: test_the_exact_url_is_asked_with_origin_and_rate",
        "gateway/webhooks/delivery/test_sink_consent.py: test_consent_comes_with_a_rate",
        "gateway/webhooks/delivery/test_sink_consent.py: test_a_sink_is_asked_anew_each_day_and_after_a_401",
        "gateway/webhooks/delivery/test_sink_consent.py: test_an_answer_without_consent_is_none_whatever_its_status",
        "gateway/webhooks/delivery/test_retry_policy.py: test_consent_is_the_field_and_not_the_status",
        "simulation/test_consents.py: test_the_rate_that_a_sink_grants_is_kept",
        f"{DELIVERY}: test_no_consent_suspends",
        f"{DELIVERY}: test_pause_resume_test_and_410",
        f"{DELIVERY}: test_one_curl_subscribes_and_one_delivers",
    )),
    Row("callback as sender", "a URL with a secret, for GET and POST; consent there holds for a day", (
        "gateway/webhooks/delivery/test_sink_consent.py: test_a_sink_is_told_where_it_may_consent_and_is_waited_for",
        "gateway/webhooks/delivery/test_sink_consent.py: test_consent_that_came_by_callback_holds_for_a_day",
        "protocols/http/handlers/test_webhook.py: test_a_sink_consents_with_the_key_of_its_url",
        "simulation/test_consents.py: test_messages_wait_for_a_sink_that_consents_later",
        "simulation/test_consents.py: test_consent_outlives_its_owner_and_the_node",
        "simulation/test_consents.py: test_after_the_end_of_a_sink_its_consent_is_asked_for_anew",
        "interop/cloudevents/test_receiving.py: test_a_subscription_is_granted_by_its_callback",
    )),
    Row("corpus", "the conformance features and tool, the CESQL kit, the SDKs of Python, JavaScript, Java and Go", (
        f"{CE}/test_features.py: test_http_binary_content_mode",
        f"{CE}/test_features.py: test_http_structured_content_mode",
        "interop/cloudevents/test_conformance.py: test_what_the_tool_sends_comes_out_as_an_event_of_1_0",
        "interop/cloudevents/test_conformance.py: test_the_tool_is_told_what_is_no_event",
        "interop/webhooks/test_cesql_kit.py: test_the_public_kit",
        f"{SDKS}: test_what_an_sdk_sends_the_python_sdk_receives",
    )),
)  # fmt: skip

SUBSCRIPTIONS: Final = (
    Row("calls", "make, read, list, replace and delete", (
        f"{DELIVERY}: test_one_curl_subscribes_and_one_delivers",
        f"{DELIVERY}: test_standard_webhooks_verify_over_a_rotation",
        "interop/http/test_management.py: test_subscriptions_belong_to_their_user",
    )),
    Row("object", "every member, and what is refused by name", (
        "domain/subscription/test_document.py: test_everything_that_a_document_can_say",
        "domain/subscription/test_document.py: test_what_is_refused_names_its_member",
        "domain/subscription/test_document.py: test_secrets_are_never_shown",
    )),
    Row("filters", "all hold; exact, prefix, suffix, all, any, not and sql; unknown and empty ones are refused", (
        "domain/subscription/test_dialects.py: test_dialects",
        "domain/subscription/test_dialects.py: test_what_is_refused_names_its_member",
        "domain/cesql/test_expression.py: test_what_is_no_cesql_is_refused_with_its_column",
        f"{DELIVERY}: test_filters_choose",
    )),
    Row("push", "a consumer group, filters, and a sink", (
        f"{DELIVERY}: test_failures_are_retried_then_dead_letters_and_redriven",
        "simulation/test_webhooks.py: test_nothing_is_lost_and_every_retry_ends",
    )),
)  # fmt: skip

BAD_INPUT: Final = (
    Row("JSON, UTF-8", "400", (
        f"{EVENTS}: test_refusals_are_problem_documents_that_name_the_attribute",
        f"{CE}/test_json.py: test_random_bytes_are_refused_and_nothing_else",
    )),
    Row("attribute missing", "400", (f"{CE}/test_json.py: test_required_attributes_are_never_invented",)),
    Row("size", "413 before the body when the length tells, else at the limit", (
        f"{READER}: test_content_length_above_the_bound_is_413_before_the_body",
        f"{READER}: test_chunked_content_is_bounded_at_the_limit",
        f"{HTTP}/test_application.py: test_a_large_request_is_refused_at_once_and_its_stream_ends_later",
    )),
    Row("head", "431 above 16 KiB", (f"{READER}: test_a_head_above_its_bound_is_431",)),
    Row("slowness", "408 for a head after ten seconds, and for a body below the rate", (
        f"{HTTP}/test_connection.py: test_deadlines",
        f"{HTTP}/test_application.py: test_slow_content_is_408",
    )),
    Row("lengths", "both of them, and a bad chunk, end the connection", (
        f"{READER}: test_smuggling_shapes_are_refused_and_the_connection_ends",
        f"{READER}: test_a_size_line_that_cannot_become_legal_is_refused_at_once",
    )),
    Row("path, method", "404, and 405 with Allow", (
        f"{HTTP}/test_application.py: test_what_is_answered_without_the_gateway",
        "interop/http/test_curl.py: test_refusals",
    )),
    Row("credentials", "401 with WWW-Authenticate, 403 for another's topic", (
        f"{FORMATS}: test_a_token_may_be_in_the_query_and_the_field_comes_first",
        f"{HTTP}/test_uploads.py: test_strangers_are_refused_before_their_content",
        f"{EVENTS}: test_a_refusal_has_the_status_that_webhook_senders_know",
    )),
    Row("compression", "413 for a bomb, 415 for an unknown coding", (
        f"{READER}: test_a_decompression_bomb_is_413",
        f"{READER}: test_an_unknown_content_coding_is_415",
    )),
    Row("many small parts", "are counted before they are read", (
        f"{CE}/test_json.py: test_an_event_has_at_most_a_hundred_attributes",
        f"{CE}/test_protobuf.py: test_fields_are_counted_before_an_event_is_decoded",
        f"{CE}/test_protobuf.py: test_events_are_counted_before_one_is_decoded",
        f"{CE}/test_avro.py: test_what_grows_while_it_is_read_is_bounded",
    )),
)  # fmt: skip

ROWS: Final = (*MAPPING, *POINTS, *SUBSCRIPTIONS, *BAD_INPUT)


@lru_cache(256)
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.area}: {row.point}" for row in ROWS])
def test_each_point_has_tests_that_exist(row: Row) -> None:
    assert row.tests
    missing = [place for place in row.tests if place.partition(": ")[2] not in names_in(place.partition(": ")[0])]
    assert missing == []
