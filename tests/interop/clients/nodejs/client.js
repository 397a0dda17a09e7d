// The official Node SDK as a user writes it: `node client.js SCENARIO ENDPOINT TOPIC GROUP`. Prints what was seen as one JSON line.
'use strict';
const {
  Producer, PushConsumer, SimpleConsumer, LitePushConsumerBuilder, ConsumeResult, FilterExpression,
} = require('rocketmq-client-nodejs');

const PATIENCE_MS = 80_000;
const SQL = 2;
const COMMIT = 1;
const ROLLBACK = 2;
const LITE_COUNT = 12;
const [, , scenario, endpoints, topic, group] = process.argv;
const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };
const common = { endpoints, namespace: '', logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(holds) {
  for (const end = Date.now() + PATIENCE_MS; !holds() && Date.now() < end;) {
    await sleep(50);
  }
}

async function producing(more = {}) {
  const producer = new Producer({ ...common, topic, ...more });
  await producer.startup();
  return producer;
}

// Sends a message of each body, with the fields of its number; their ids.
async function send(bodies, fields = () => ({}), more = {}) {
  const producer = await producing(more);
  const ids = [];
  for (const [at, body] of bodies.entries()) {
    ids.push((await producer.send({ topic, body: Buffer.from(body), ...fields(at) })).messageId);
  }
  await producer.shutdown();
  return ids;
}

const numbers = (count, name = '') => Array.from({ length: count }, (_, at) => `${name}${at}`);

// Messages `body 0`, `body 1`, ... with tags, keys and a property.
const numbered = (count, fields = () => ({})) => send(numbers(count, 'body '), (at) => ({
  tag: at % 2 === 0 ? 'even' : 'odd', keys: [`key-${at}`], properties: new Map([['place', 'Zürich']]), ...fields(at),
}));

function seen(message, extra = {}) {
  return {
    body: message.body.toString(), attempt: message.deliveryAttempt, tag: message.tag, keys: message.keys,
    group: message.messageGroup, place: message.properties.get('place'), id: message.messageId, ...extra,
  };
}

async function receiving(filter = '*', more = {}, of = topic) {
  const consumer = new SimpleConsumer({
    ...common, consumerGroup: group, subscriptions: new Map([[of, filter]]), awaitDuration: 5000, ...more,
  });
  await consumer.startup();
  return consumer;
}

async function receive(filter, enough, handle) {
  const consumer = await receiving(filter);
  const found = [];
  for (const end = Date.now() + PATIENCE_MS; found.length < enough && Date.now() < end;) {
    for (const message of await consumer.receive(16, 30_000)) {
      found.push(seen(message, { at: Date.now() }));
      await handle(consumer, message);
    }
  }
  await consumer.shutdown();
  return found;
}

// Receives until enough have come, and once more; all are acknowledged.
async function drain(enough, filter = '*', more = {}, of = topic) {
  const consumer = await receiving(filter, more, of);
  const found = [];
  for (const end = Date.now() + PATIENCE_MS, rest = { left: 1 }; rest.left >= 0 && Date.now() < end;) {
    if (found.length >= enough) {
      rest.left--;
    }
    for (const message of await consumer.receive(16, 30_000)) {
      found.push(message.body.toString());
      await consumer.ack(message);
    }
  }
  await consumer.shutdown();
  return found.sort();
}

async function pushing(consume) {
  const messageListener = { consume };
  await new PushConsumer({ ...common, consumerGroup: group, subscriptions: new Map([[topic, '*']]), messageListener }).startup();
}

async function simple() {
  const ids = await numbered(20);
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
  const ids = await numbered(3, () => ({ deliveryTimestamp: new Date(due) }));
  return { due, ids, seen: await receive('*', 3, (consumer, message) => consumer.ack(message)) };
}

async function push(enough, fields) {
  const ids = await numbered(30, fields);
  const found = [];
  let failed = enough === 30;
  await pushing(async (message) => {
    found.push(seen(message));
    if (!failed && message.body.toString() === 'body 3') {
      failed = true;
      return ConsumeResult.FAILURE;
    }
    return ConsumeResult.SUCCESS;
  });
  await until(() => found.length >= enough);
  await sleep(1000);
  return { ids, seen: found };
}

// Two committed, two rolled back, two left to the checker, which commits one of them.
async function transaction() {
  const asked = new Set();
  const checker = {
    async check(message) {
      asked.add(message.body.toString());
      return message.body.toString() === 'body 4' ? COMMIT : ROLLBACK;
    },
  };
  const producer = await producing({ checker });
  for (let at = 0; at < 6; at++) {
    const begun = producer.beginTransaction();
    await producer.send({ topic, body: Buffer.from(`body ${at}`) }, begun);
    if (at < 2) {
      await begun.commit();
    } else if (at < 4) {
      await begun.rollback();
    }
  }
  await until(() => asked.size >= 2);
  return { asked: [...asked].sort(), seen: await drain(3) };
}

// Every other one of six messages for later is taken back.
async function recall() {
  const producer = await producing();
  for (let at = 0; at < 6; at++) {
    const receipt = await producer.send({ topic, body: Buffer.from(`body ${at}`), deliveryTimestamp: new Date(Date.now() + 4000) });
    if (at % 2 === 0) {
      await producer.recallMessage(topic, receipt.recallHandle);
    }
  }
  return { seen: await drain(3) };
}

async function sql() {
  await send(numbers(10, 'body '), (at) => ({ properties: new Map([['weight', `${at}`]]) }));
  return { seen: await drain(3, new FilterExpression('weight BETWEEN 4 AND 6', SQL)) };
}

// A listener that always fails, until the group's attempts are over; the letter is read by another group.
async function dead() {
  await send(['poison']);
  const attempts = [];
  await pushing(async (message) => {
    attempts.push(message.deliveryAttempt);
    return ConsumeResult.FAILURE;
  });
  await until(() => attempts.length >= 2);
  const letters = await drain(1, '*', { consumerGroup: `${group}-undertaker` }, `%DLQ%${group}`);
  return { attempts, letters };
}

// The same names in two namespaces and in none.
async function spaces() {
  const names = ['', 'shop', 'yard'];
  for (const namespace of names) {
    await send(numbers(3, namespace), () => ({}), { namespace });
  }
  const found = {};
  for (const namespace of names) {
    found[namespace] = await drain(3, '*', { namespace });
  }
  return { seen: found };
}

// Two members, one message, and a listener that works on it for longer than a lease: it is handed out once.
async function slow() {
  const attempts = [];
  let done = false;
  for (let member = 0; member < 2; member++) {
    await pushing(async (message) => {
      attempts.push(message.deliveryAttempt);
      await sleep(66_000);
      done = true;
      return ConsumeResult.SUCCESS;
    });
  }
  await send(['slow']);
  await until(() => done);
  await sleep(4000);
  return { attempts };
}

// Sent and received over TLS; the environment names the certificate that is trusted.
async function tls() {
  await send(['over TLS'], () => ({}), { sslEnabled: true });
  return { seen: await drain(1, '*', { sslEnabled: true }) };
}

// Number and priority of each message as it is received. Priorities are 1 to 3: the SDK takes a 0 for none.
async function priority() {
  await send(numbers(12), (at) => ({ priority: 1 + at % 3 }));
  const consumer = await receiving();
  const found = [];
  for (const end = Date.now() + PATIENCE_MS; found.length < 12 && Date.now() < end;) {
    for (const message of await consumer.receive(2, 30_000)) {
      found.push([Number(message.body.toString()), message.getPriority()]);
      await consumer.ack(message);
    }
  }
  await consumer.shutdown();
  return { seen: found };
}

// Lite topic and number of each message of two lite topics out of three; then of one of them, the other being given up.
async function lite() {
  const found = [];
  const messageListener = {
    async consume(message) {
      found.push([message.liteTopic, Number(message.body.toString())]);
      return ConsumeResult.SUCCESS;
    },
  };
  const consumer = await new LitePushConsumerBuilder().setClientConfiguration(common).setConsumerGroup(group).bindTopic(topic)
    .setMessageListener(messageListener).build();
  const taken = async (enough) => {
    await until(() => found.length >= enough);
    await sleep(1000);
    return found.splice(0);
  };
  await consumer.subscribeLite('a');
  await consumer.subscribeLite('b');
  await send(numbers(LITE_COUNT * 3 / 2), (at) => ({ liteTopic: 'abc'[at % 3] }));
  const both = await taken(LITE_COUNT);
  await consumer.unsubscribeLite('b');
  await send(numbers(6), (at) => ({ liteTopic: 'abc'[at % 3] }));
  return { both, one: await taken(2), topics: [...consumer.getLiteTopicSet()] };
}

const scenarios = {
  simple, delay, push: () => push(31), fifo: () => push(30, (at) => ({ messageGroup: `group-${at % 3}` })),
  transaction, recall, sql, dead, spaces, slow, tls, priority, lite,
};
scenarios[scenario]().then((found) => {
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
}, (error) => {
  console.error(error);
  process.exit(1);
});
