// Priorities and lite topics by the official Node SDK: `node lite.js ENDPOINT RANKED RANKED_GROUP PARENT GROUP`. Prints one JSON line.
'use strict';
const { Producer, SimpleConsumer, LitePushConsumerBuilder, ConsumeResult } = require('rocketmq-client-nodejs');

const PATIENCE_MS = 60_000;
const COUNT = 12;
const [, , endpoints, rankedTopic, rankedGroup, parent, group] = process.argv;
const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };
const common = { endpoints, namespace: '', logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Messages "0", "1", ..., each with the fields that are made of its number.
async function send(topic, count, fields) {
  const producer = new Producer({ ...common, topic });
  await producer.startup();
  for (let at = 0; at < count; at++) {
    await producer.send({ topic, body: Buffer.from(`${at}`), ...fields(at) });
  }
  await producer.shutdown();
}

// Number and priority of each message as it is received. Priorities are 1 to 3: the SDK takes a 0 for none.
async function ranked() {
  await send(rankedTopic, COUNT, (at) => ({ priority: 1 + at % 3 }));
  const consumer = new SimpleConsumer({
    ...common, consumerGroup: rankedGroup, subscriptions: new Map([[rankedTopic, '*']]), awaitDuration: 5000,
  });
  await consumer.startup();
  const seen = [];
  for (const end = Date.now() + PATIENCE_MS; seen.length < COUNT && Date.now() < end;) {
    for (const message of await consumer.receive(2, 30_000)) {
      seen.push([Number(message.body.toString()), message.getPriority()]);
      await consumer.ack(message);
    }
  }
  await consumer.shutdown();
  return seen;
}

// Lite topic and number of each message of two lite topics out of three; then of one of them, the other being given up.
async function lite() {
  const seen = [];
  const messageListener = {
    async consume(message) {
      seen.push([message.liteTopic, Number(message.body.toString())]);
      return ConsumeResult.SUCCESS;
    },
  };
  const consumer = await new LitePushConsumerBuilder().setClientConfiguration(common).setConsumerGroup(group).bindTopic(parent)
    .setMessageListener(messageListener).build();
  const until = async (enough) => {
    for (const end = Date.now() + PATIENCE_MS; seen.length < enough && Date.now() < end;) {
      await sleep(50);
    }
    await sleep(1000);
    return seen.splice(0);
  };
  await consumer.subscribeLite('a');
  await consumer.subscribeLite('b');
  await send(parent, COUNT * 3 / 2, (at) => ({ liteTopic: 'abc'[at % 3] }));
  const both = await until(COUNT);
  await consumer.unsubscribeLite('b');
  await send(parent, 6, (at) => ({ liteTopic: 'abc'[at % 3] }));
  return { both, one: await until(2), topics: [...consumer.getLiteTopicSet()] };
}

(async () => ({ ranked: await ranked(), lite: await lite() }))().then((found) => {
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
}, (error) => {
  console.error(error);
  process.exit(1);
});
