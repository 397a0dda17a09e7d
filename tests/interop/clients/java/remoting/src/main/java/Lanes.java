import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Orderly members, to be killed: `Lanes NAMESERVER TOPIC MEMBERS [KEYS COUNT]`. With the last two it sends COUNT messages of each
 * of KEYS keys. Prints `seen KEY NUMBER NANOSECONDS` for every message, at the time of the machine's monotonic clock.
 */
public final class Lanes {
    private static final int HANDLING_MS = 10;

    private Lanes() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        DefaultMQProducer producer = new DefaultMQProducer("pg-" + topic);
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        producer.createTopic("TBW102", topic, 8, Map.of());
        for (int member = 0; member < Integer.parseInt(arguments[2]); member++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-group");
            consumer.setNamesrvAddr(arguments[0]);
            consumer.setInstanceName("member" + member + "-" + ProcessHandle.current().pid());
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt each : messages) {
                    report(each);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
        }
        if (arguments.length > 3) {
            send(producer, topic, Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        }
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void report(MessageExt message) {
        synchronized (System.out) {
            System.out.println("seen " + message.getKeys() + " " + new String(message.getBody(), StandardCharsets.UTF_8) + " "
                + System.nanoTime());
            System.out.flush();
        }
        try {
            Thread.sleep(HANDLING_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void send(DefaultMQProducer producer, String topic, int keys, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            for (int key = 0; key < keys; key++) {
                byte[] body = String.valueOf(number).getBytes(StandardCharsets.UTF_8);
                producer.send(new Message(topic, "TagA", "key" + key, body), new SelectMessageQueueByHash(), "key" + key);
            }
        }
    }
}
