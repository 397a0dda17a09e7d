// The client `ali-ons` as a user writes it: `node client.js NAMESERVER TOPIC`. Prints what was seen as one JSON line.
'use strict';
const { Producer, Consumer, Message } = require('ali-ons');

const PATIENCE_MS = 60_000;
const [, , nameSrv, topic] = process.argv;
const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const httpclient = { request() { throw new Error('nothing is asked over HTTP'); } };
const common = { httpclient, nameSrv, logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function message(body, tag = 'A') {
  const made = new Message(topic, tag, body);
  made.keys = [`key-${body.slice(0, 10)}`];
  made.properties.place = 'Zürich';
  made.properties.weight = `${body.length}`;
  return made;
}

// What a consumer of a group of its own sees of a subscription; `again` is refused once.
async function consuming(group, filter, seen, more = {}) {
  const consumer = new Consumer({ ...common, consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', ...more });
  consumer.on('error', (error) => console.error(error));
  let refused = false;
  consumer.subscribe(topic, filter, async (each) => {
    const body = each.body.toString();
    seen.push({ body: body.slice(0, 10), size: body.length, tag: each.tags, keys: each.keys, place: each.properties.place, times: each.reconsumeTimes });
    if (body === 'again' && !refused && !more.isBroadcast) {
      refused = true;
      return Consumer.ACTION_RETRY;
    }
    return undefined;
  });
  await consumer.ready();
  return consumer;
}

async function main() {
  const producer = new Producer({ ...common, producerGroup: `PID-${topic}` });
  await producer.ready();
  const tagged = [];
  const weighed = [];
  const everywhere = [[], []];
  const sent = [];
  const bodies = ['one', 'two', 'again', 'x'.repeat(100_000)];
  for (const body of bodies) {
    sent.push((await producer.send(message(body))).sendStatus);
  }
  await producer.send(message('other', 'B'));
  await consuming(`CID-${topic}`, 'A', tagged);
  await consuming(`SQL-${topic}`, { expressionType: 'SQL92', subString: "weight BETWEEN 4 AND 6 AND place = 'Zürich'" }, weighed);
  for (const each of everywhere) {
    await consuming(`ALL-${topic}`, '*', each, { isBroadcast: true, instanceName: `member${everywhere.indexOf(each)}` });
  }
  const over = () => tagged.length >= 5 && weighed.length >= 3 && everywhere.every((each) => each.length >= 5);
  for (const end = Date.now() + PATIENCE_MS; !over() && Date.now() < end;) {
    await sleep(50);
  }
  await sleep(1000);
  return { sent, tagged, weighed, everywhere };
}

main().then((found) => {
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
}, (error) => {
  console.error(error);
  process.exit(1);
});
