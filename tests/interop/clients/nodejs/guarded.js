// Access keys with the official Node SDK: `node guarded.js ENDPOINT TOPIC GROUP CLOSED USER PASSWORD`. Prints what came of sending and
// consuming with the right keys, of sending to a topic that the user may not send to, and of another password.
'use strict';
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const PATIENCE_MS = 60_000;
const COUNT = 5;
const [, , endpoints, topic, consumerGroup, closed, accessKey, accessSecret] = process.argv;
const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const keys = (secret) => ({ endpoints, namespace: '', logger: quiet, sessionCredentials: { accessKey, accessSecret: secret } });

async function send(to, secret, count) {
  const producer = new Producer({ ...keys(secret), topic: to });
  await producer.startup();
  for (let at = 0; at < count; at++) {
    await producer.send({ topic: to, body: Buffer.from(`m${at}`) });
  }
}

async function receive() {
  const consumer = new SimpleConsumer({
    ...keys(accessSecret), consumerGroup, subscriptions: new Map([[topic, '*']]), awaitDuration: 5000,
  });
  await consumer.startup();
  const seen = new Set();
  for (const end = Date.now() + PATIENCE_MS; seen.size < COUNT && Date.now() < end;) {
    for (const message of await consumer.receive(16, 30_000)) {
      seen.add(message.body.toString());
      await consumer.ack(message);
    }
  }
  return seen.size;
}

// The error, with the one behind it.
async function refusal(sent) {
  try {
    await sent;
    return 'nothing';
  } catch (error) {
    return [error, error.cause].filter(Boolean).map((each) => `${each.name}: ${each.message}`).join('; ').replaceAll('\n', ' ');
  }
}

(async () => {
  await send(topic, accessSecret, COUNT);
  console.log(`right\t${await receive()}`);
  console.log(`closed\t${await refusal(send(closed, accessSecret, 1))}`);
  console.log(`wrong\t${await refusal(send(topic, `${accessSecret}!`, 1))}`);
})().then(() => process.stdout.write('', () => process.exit(0)), (error) => {
  console.error(error);
  process.exit(1);
});
