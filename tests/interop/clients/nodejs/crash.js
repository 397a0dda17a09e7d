// The node is killed and started again under this: `node crash.js ENDPOINT NAME`. Says READY when it can stand that, and waits for a line.
'use strict';
const { Producer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const BEFORE = 200;
const AFTER = 200;
const FAILURES_MAX = 10_000;
const PATIENCE_MS = 120_000;
const COMMIT = 1;
const ROLLBACK = 2;
const UNKNOWN = 0;
const [, , endpoints, name] = process.argv;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const common = { endpoints, namespace: '', logger: quiet };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let isBack = false;
const back = new Promise((resolve) => {
  process.stdin.once('data', () => {
    isBack = true;
    resolve();
  });
});
const waiting = new Set(['stream', 'transactions']);

// Says READY when every scene has come so far, or has failed.
function ready(scene) {
  if (waiting.delete(scene) && waiting.size === 0) {
    console.log('READY');
  }
}

async function consuming(topic, seen) {
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
}

async function producing(topic, more = {}) {
  const producer = new Producer({ ...common, topic, ...more });
  await producer.startup();
  return producer;
}

async function until(holds) {
  for (const end = Date.now() + PATIENCE_MS; !holds() && Date.now() < end;) {
    await sleep(50);
  }
}

// Sends and consumes all the time: what was acknowledged is consumed.
async function stream(topic) {
  const seen = [];
  await consuming(topic, seen);
  const producer = await producing(topic);
  const acknowledged = new Set();
  let failed = 0;
  for (let number = 0, since = 0; since < AFTER; number++) {
    const counts = isBack;
    try {
      await producer.send({ topic, body: Buffer.from(`m${number}`) });
      acknowledged.add(`m${number}`);
      since += counts ? 1 : 0;
    } catch (error) {
      if (++failed > FAILURES_MAX) {
        throw error;
      }
      await sleep(20);
    }
    if (acknowledged.size === BEFORE) {
      ready('stream');
    }
    await sleep(counts ? 0 : 5);
  }
  const missing = () => {
    const found = new Set(seen);
    return [...acknowledged].filter((each) => !found.has(each));
  };
  await until(() => missing().length === 0);
  if (missing().length > 0) {
    throw new Error(`${missing().length} of ${acknowledged.size} are missing, ${seen.length} deliveries`);
  }
  return `node: ${acknowledged.size} acknowledged, ${failed} sends failed, ${seen.length} deliveries`;
}

// Decided before the kill, or asked about after it, which may be of another producer of the topic.
async function transactions(topic) {
  const checker = {
    async check(message) {
      return !isBack ? UNKNOWN : Number(message.body.toString().slice(-1)) % 2 === 0 ? COMMIT : ROLLBACK;
    },
  };
  const producer = await producing(topic, { checker });
  const wanted = [];
  for (let at = 0; at < 4; at++) {
    for (const kind of ['commit', 'rollback', 'open']) {
      const begun = producer.beginTransaction();
      await producer.send({ topic, body: Buffer.from(`${kind}${at}`) }, begun);
      if (kind !== 'open') {
        await begun[kind]();
      }
      if (kind === 'commit' || (kind === 'open' && at % 2 === 0)) {
        wanted.push(`${kind}${at}`);
      }
    }
  }
  ready('transactions');
  await back;
  await producing(topic, { checker });
  const seen = [];
  await consuming(topic, seen);
  await until(() => seen.length >= wanted.length);
  await sleep(2000);
  if (seen.sort().join() !== wanted.sort().join()) {
    throw new Error(`seen ${seen}, wanted ${wanted}`);
  }
  return `node: ${seen.length} of transactions`;
}

async function play(scene, perform) {
  try {
    const said = await perform(`${name}-${scene}`);
    console.log(`OK ${scene}\n${said}`);
  } catch (error) {
    console.log(`FAILED ${scene}\n${error.stack}`);
  }
  ready(scene);
}

Promise.all([play('stream', stream), play('transactions', transactions)])
  .then(() => process.stdout.write('', () => process.exit(0)));
