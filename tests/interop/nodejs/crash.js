// The node is killed and started again under this: `node crash.js ENDPOINT TOPIC`. Says READY when it can stand that, and waits for a line.
'use strict';
const { Producer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const BEFORE = 200;
const AFTER = 200;
const FAILURES_MAX = 10_000;
const PATIENCE_MS = 120_000;
const [, , endpoints, topic] = process.argv;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const common = { endpoints, namespace: '', logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Sends and consumes all the time: what was acknowledged is consumed.
async function stream() {
  const seen = [];
  const consumer = new PushConsumer({
    ...common, consumerGroup: `${topic}-group`, subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        seen.push(message.body.toString());
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  const producer = new Producer({ ...common, topic });
  await producer.startup();
  let isBack = false;
  process.stdin.once('data', () => { isBack = true; });
  const acknowledged = new Set();
  let failed = 0;
  for (let number = 0, since = 0; since < AFTER; number++) {
    const back = isBack;
    try {
      await producer.send({ topic, body: Buffer.from(`m${number}`) });
      acknowledged.add(`m${number}`);
      since += back ? 1 : 0;
    } catch (error) {
      if (++failed > FAILURES_MAX) {
        throw error;
      }
      await sleep(20);
    }
    if (acknowledged.size === BEFORE) {
      console.log('READY');
    }
    await sleep(back ? 0 : 5);
  }
  const missing = () => {
    const found = new Set(seen);
    return [...acknowledged].filter((each) => !found.has(each));
  };
  for (const end = Date.now() + PATIENCE_MS; missing().length > 0 && Date.now() < end;) {
    await sleep(50);
  }
  if (missing().length > 0) {
    throw new Error(`${missing().length} of ${acknowledged.size} are missing, ${seen.length} deliveries`);
  }
  console.log(`node: ${acknowledged.size} acknowledged, ${failed} sends failed, ${seen.length} deliveries`);
}

stream().then(() => process.stdout.write('OK stream\n', () => process.exit(0)), (error) => {
  process.stdout.write(`FAILED stream\n${error.stack}\n`, () => process.exit(0));
});
