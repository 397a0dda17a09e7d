#!/usr/bin/env bash
# The HTTP API with nothing but curl: produce, receive, acknowledge. Usage: examples/http_shop.sh [host:port]
set -euo pipefail
base="http://${1:-127.0.0.1:8080}/v1"
call=(curl --fail-with-body --silent --show-error)

"${call[@]}" --header 'content-type: text/plain' --data-binary 'two bicycles' "$base/topics/shop/messages"
echo

received=$("${call[@]}" --request POST "$base/groups/delivery/topics/shop:receive?max=1&wait_ms=5000")
echo "$received"

receipt=$(sed --quiet 's/.*"receipt": *"\([^"]*\)".*/\1/p' <<<"$received")
"${call[@]}" --header 'content-type: application/json' --data "{\"receipts\":[\"$receipt\"]}" "$base/groups/delivery/topics/shop:ack"
echo
