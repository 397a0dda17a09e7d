// Members of an orderly group, whose listeners print `seen KEY NUMBER NANOSECONDS` for each message, until they are killed:
// `node ordered.js ENDPOINT TOPIC GROUP MEMBERS [KEYS COUNT]`. With the last two it sends COUNT messages of each of KEYS keys.
'use strict';
const { Producer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const WORK_MS = 20;
const [, , endpoints, topic, consumerGroup, ...numbers] = process.argv;
const [members, keys = 0, count = 0] = numbers.map(Number);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const common = { endpoints, namespace: '', logger: quiet };

const messageListener = {
  async consume(message) {
    process.stdout.write(`seen ${message.messageGroup} ${message.body} ${process.hrtime.bigint()}\n`);
    await new Promise((resolve) => setTimeout(resolve, WORK_MS));
    return ConsumeResult.SUCCESS;
  },
};

async function main() {
  for (let member = 0; member < members; member++) {
    await new PushConsumer({ ...common, consumerGroup, subscriptions: new Map([[topic, '*']]), messageListener }).startup();
  }
  if (keys === 0) {
    return;
  }
  const producer = new Producer({ ...common, topic });
  await producer.startup();
  for (let number = 0; number < count; number++) {
    for (let key = 0; key < keys; key++) {
      await producer.send({ topic, body: Buffer.from(`${number}`), messageGroup: `key${key}` });
    }
  }
}

main().then(() => setInterval(() => {}, 1000));
