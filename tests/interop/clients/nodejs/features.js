// More of the official Node SDK: `node features.js SCENARIO ENDPOINT TOPIC GROUP`. Prints what was seen as one JSON line.
'use strict';
const { Producer, PushConsumer, SimpleConsumer, ConsumeResult, FilterExpression } = require('rocketmq-client-nodejs');

const PATIENCE_MS = 80_000;
const SQL = 2;
const COMMIT = 1;
const ROLLBACK = 2;
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

// Receives until enough have come, and once more; all are acknowledged.
async function drain(enough, filter = '*', more = {}, of = topic) {
  const consumer = new SimpleConsumer({ ...common, consumerGroup: group, subscriptions: new Map([[of, filter]]), awaitDuration: 5000, ...more });
  await consumer.startup();
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
  const producer = await producing();
  for (let at = 0; at < 10; at++) {
    await producer.send({ topic, body: Buffer.from(`body ${at}`), properties: new Map([['weight', `${at}`]]) });
  }
  return { seen: await drain(3, new FilterExpression('weight BETWEEN 4 AND 6', SQL)) };
}

// A listener that always fails, until the group's attempts are over; the letter is read by another group.
async function dead() {
  const producer = await producing();
  await producer.send({ topic, body: Buffer.from('poison') });
  const attempts = [];
  const consumer = new PushConsumer({
    ...common, consumerGroup: group, subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        attempts.push(message.deliveryAttempt);
        return ConsumeResult.FAILURE;
      },
    },
  });
  await consumer.startup();
  await until(() => attempts.length >= 2);
  const letters = await drain(1, '*', { consumerGroup: `${group}-undertaker` }, `%DLQ%${group}`);
  return { attempts, letters };
}

// The same names in two namespaces and in none.
async function spaces() {
  const seen = {};
  for (const namespace of ['', 'shop', 'yard']) {
    const producer = await producing({ namespace });
    for (let at = 0; at < 3; at++) {
      await producer.send({ topic, body: Buffer.from(`${namespace}${at}`) });
    }
    await producer.shutdown();
  }
  for (const namespace of ['', 'shop', 'yard']) {
    seen[namespace] = await drain(3, '*', { namespace });
  }
  return { seen };
}

// Two members, one message, and a listener that works on it for longer than a lease: it is handed out once.
async function slow() {
  const attempts = [];
  let done = false;
  const messageListener = {
    async consume(message) {
      attempts.push(message.deliveryAttempt);
      await sleep(66_000);
      done = true;
      return ConsumeResult.SUCCESS;
    },
  };
  for (let member = 0; member < 2; member++) {
    await new PushConsumer({ ...common, consumerGroup: group, subscriptions: new Map([[topic, '*']]), messageListener }).startup();
  }
  const producer = await producing();
  await producer.send({ topic, body: Buffer.from('slow') });
  await until(() => done);
  await sleep(4000);
  return { attempts };
}

// Sent and received over TLS; the environment names the certificate that is trusted.
async function tls() {
  const producer = await producing({ sslEnabled: true });
  await producer.send({ topic, body: Buffer.from('over TLS') });
  return { seen: await drain(1, '*', { sslEnabled: true }) };
}

const scenarios = { slow, tls, transaction, recall, sql, dead, spaces };
scenarios[scenario]().then((found) => {
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));
}, (error) => {
  console.error(error);
  process.exit(1);
});
