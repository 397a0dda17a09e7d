#!/usr/bin/env bash
# From a subscription to a delivered, failed, inspected and redriven event, by curl. The node was started with
# HEADGATE_WEBHOOK_ALLOW='["127.0.0.0/8"]', since the receiver is on this machine:
#
#     python -m examples.webhooks.receiver 9000 whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw &
#     bash examples/webhooks/tour.sh 127.0.0.1:8080 127.0.0.1:9000
set -euo pipefail
node=http://${1:-127.0.0.1:8080} receiver=http://${2:-127.0.0.1:9000}

say() { printf '\n# %s\n' "$*"; }
send() { curl -sS --fail "$node/ce/orders" -H "ce-id: $1" -H 'ce-source: /shop' -H "ce-type: order.made" -H 'ce-specversion: 1.0' -H 'content-type: application/json' -d "$2"; }
attempts() { curl -sS --fail "$node/subscriptions/$id/attempts?max=5"; }
# until WORDS: wait until the attempts have these words
until_said() { for _ in $(seq 200); do attempts | grep -q "$1" && return 0; sleep 0.1; done; echo "never said: $1"; return 1; }

say "subscribe"
id=$(curl -sS --fail "$node/subscriptions" -d '{
  "source": "orders", "sink": "'"$receiver"'/hook", "protocol": "HTTP",
  "config": {"retry": 2, "backoffDelay": "PT0.1S"},
  "sinkcredential": {"type": "standardwebhooks", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
}' | sed 's/.*"id":"\([^"]*\)".*/\1/')
echo "$id"

say "an event that the receiver takes"
send 1 '{"bicycles": 1}'
until_said '"outcome":"delivered"'
attempts; echo

say "an event that it refuses: three tries, then a dead letter"
send 2 '{"bicycles": "fail"}'
until_said '"outcome":"dead-letter"'
attempts; echo

say "the receiver is mended, and gets the dead letter again"
curl -sS --fail -X POST "$receiver/mend"
curl -sS --fail -X POST "$node/subscriptions/$id:redrive"; echo
for _ in $(seq 200); do [ "$(attempts | grep -o '"outcome":"delivered"' | wc -l)" -ge 2 ] && break; sleep 0.1; done
attempts; echo

say "delete"
curl -sS --fail -X DELETE "$node/subscriptions/$id"
echo "done"
