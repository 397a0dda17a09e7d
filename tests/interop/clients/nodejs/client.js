// The official Node SDK as a user writes it: `node client.js SCENARIO ENDPOINT TOPIC GROUP`. Prints what was seen as one JSON line.
'use strict';
const { Producer, PushConsumer, SimpleConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const PATIENCE_MS = 60_000;
const [, , scenario, endpoints, topic, group] = process.argv;
const quiet = { info() {}, warn: console.error, error: console.error };
const common = { endpoints, namespace: '', logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function seen(message, extra = {}) {
  return {
    body: message.body.toString(), attempt: message.deliveryAttempt, tag: message.tag, keys: message.keys,
    group: message.messageGroup, place: message.properties.get('place'), id: message.messageId, ...extra,
  };
}

async function produce(count, change = () => ({})) {
  const producer = new Producer({ ...common, topic });
  await producer.startup();
  const ids = [];
  for (let at = 0; at < count; at++) {
    const receipt = await producer.send({
      topic, body: Buffer.from(`body ${at}`), tag: at % 2 === 0 ? 'even' : 'odd', keys: [`key-${at}`],
      properties: new Map([['place', 'Zürich']]), ...change(at),
    });
    ids.push(receipt.messageId);
  }
  return { producer, ids };
}

async function receive(filter, enough, handle) {
  const consumer = new SimpleConsumer({ ...common, consumerGroup: group, subscriptions: new Map([[topic, filter]]), awaitDuration: 5000 });
  await consumer.startup();
  const found = [];
  const end = Date.now() + PATIENCE_MS;
  while (found.length < enough && Date.now() < end) {
    for (const message of await consumer.receive(16, 30_000)) {
      found.push(seen(message, { at: Date.now() }));
      await handle(consumer, message);
    }
  }
  await consumer.shutdown();
  return found;
}

async function simple() {
  const { producer, ids } = await produce(20);
  await producer.shutdown();
  let givenBack = false;
  const found = await receive('even', 11, async (consumer, message) => {
    if (!givenBack) {
      givenBack = true;
      await consumer.changeInvisibleDuration(message, 1000);
    } else {
      await consumer.ack(message);
    }
  });
  return { ids, seen: found };
}

async function delay() {
  const due = Date.now() + 3000;
  const { producer, ids } = await produce(3, () => ({ deliveryTimestamp: new Date(due) }));
  await producer.shutdown();
  return { due, ids, seen: await receive('*', 3, (consumer, message) => consumer.ack(message)) };
}

async function push(enough, change) {
  const { producer, ids } = await produce(30, change);
  await producer.shutdown();
  const found = [];
  let failed = enough === 30;
  const consumer = new PushConsumer({
    ...common, consumerGroup: group, subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        found.push(seen(message));
        if (!failed && message.body.toString() === 'body 3') {
          failed = true;
          return ConsumeResult.FAILURE;
        }
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  const end = Date.now() + PATIENCE_MS;
  while (found.length < enough && Date.now() < end) {
    await sleep(50);
  }
  await sleep(1000);
  return { ids, seen: found };
}

const scenarios = { simple, delay, push: () => push(31), fifo: () => push(30, (at) => ({ messageGroup: `group-${at % 3}` })) };
scenarios[scenario]().then((found) => {
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
}, (error) => {
  console.error(error);
  process.exit(1);
});
