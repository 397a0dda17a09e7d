import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * `Moved NAMESERVERS TOPIC POLL_MS`: sends and receives all the time, asks for routes every POLL_MS, and measures the longest times
 * between two sends that were acknowledged, and between two messages that came. Says READY when the broker can move, and waits for a
 * line. It needs nothing that 4.9.8 and 5.5 do not have both, and runs with the jars of either.
 */
public final class Moved {
    private static final int BEFORE = 100;
    private static final int AFTER = 100;
    private static final long LIMIT_MS = 150_000;
    private static final int TIMEOUT_MS = 15_000;

    private Moved() {
    }

    /** The longest time between two events. */
    private static final class Gap {
        private final AtomicLong longest = new AtomicLong();
        private volatile long last;

        synchronized void event() {
            long now = System.nanoTime() / 1_000_000;
            if (last != 0) {
                longest.accumulateAndGet(now - last, Math::max);
            }
            last = now;
        }
    }

    private static volatile boolean back;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int poll = Integer.parseInt(arguments[2]);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Gap sent = new Gap();
        Gap came = new Gap();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("cg-" + topic);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setInstanceName("consumer");
        consumer.setPollNameServerInterval(poll);
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> seen.add(new String(each.getBody(), StandardCharsets.UTF_8)));
            came.event();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("pg-" + topic);
        producer.setNamesrvAddr(arguments[0]);
        producer.setInstanceName("producer");
        producer.setPollNameServerInterval(poll);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.start();
        Thread told = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
            back = true;
        });
        told.setDaemon(true);
        String result;
        try {
            result = work(producer, topic, sent, seen, told);
        } catch (Throwable error) {
            System.out.println("FAILED moved");
            error.printStackTrace(System.out);
            System.out.flush();
            System.exit(1);
            return;
        }
        System.out.println("OK moved sent_ms=" + sent.longest + " came_ms=" + came.longest + " " + result);
        System.out.flush();
        System.exit(0);
    }

    private static String work(DefaultMQProducer producer, String topic, Gap sent, Set<String> seen, Thread told) throws Exception {
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        long limit = System.currentTimeMillis() + LIMIT_MS;
        int failed = 0;
        int since = 0;
        for (int number = 0; since < AFTER; number++) {
            String body = "m" + number;
            try {
                byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
                if (producer.send(new Message(topic, bytes), 3_000).getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.add(body);
                    sent.event();
                    since += back ? 1 : 0;
                }
            } catch (Exception down) {
                failed++;
                if (System.currentTimeMillis() > limit) {
                    throw down;
                }
            }
            if (acknowledged.size() >= BEFORE && seen.size() >= BEFORE && !told.isAlive() && !back) {
                System.out.println("READY");
                System.out.flush();
                told.start();
            }
            Thread.sleep(20);
        }
        while (!seen.containsAll(acknowledged)) {
            if (System.currentTimeMillis() > limit) {
                acknowledged.removeAll(seen);
                throw new AssertionError("not received: " + acknowledged);
            }
            Thread.sleep(20);
        }
        return "acknowledged=" + acknowledged.size() + " failed=" + failed;
    }
}
