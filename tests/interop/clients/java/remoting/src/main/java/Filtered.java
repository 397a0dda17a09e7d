import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A push consumer that selects by properties: `Filtered push|pop NAMESERVER TOPIC BROKER`. */
public final class Filtered {
    private static final String SELECTOR = "(weight BETWEEN 5 AND 10 AND color IN ('red', 'green')) OR note CONTAINS 'it''s'";

    private Filtered() {
    }

    public static void main(String[] args) {
        try {
            run(args[0], args[1], args[2], args[3]);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + args[0]);
        System.exit(0);
    }

    private static void run(String mode, String nameserver, String topic, String broker) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
        producer.start();
        producer.createTopic("TBW102", topic, 8, Map.of());
        refused(nameserver, topic);
        String group = "cg_" + topic;
        if (mode.equals("pop")) {
            DefaultMQAdminExt admin = new DefaultMQAdminExt();
            admin.setNamesrvAddr(nameserver);
            admin.start();
            admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 5000);
            admin.shutdown();
        }
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = consumer(nameserver, group, topic, SELECTOR);
        consumer.setClientRebalance(!mode.equals("pop"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> seen.add(new String(each.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        TreeSet<String> wanted = new TreeSet<>();
        List<String> colors = List.of("red", "green", "blue");
        for (int i = 0; i < 60; i++) {
            Message message = new Message(topic, "TagA", "m" + i, ("m" + i).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("color", colors.get(i % 3));
            if (i % 4 != 3) {
                message.putUserProperty("weight", String.valueOf(i % 15));
            }
            if (i % 10 == 9) {
                message.putUserProperty("note", "if it's late");
            }
            boolean heavy = i % 4 != 3 && i % 15 >= 5 && i % 15 <= 10;
            if (heavy && i % 3 != 2 || i % 10 == 9) {
                wanted.add("m" + i);
            }
            producer.send(message);
        }
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(45);
        while (seen.size() < wanted.size() && System.nanoTime() < limit) {
            Thread.sleep(20);
        }
        Thread.sleep(500);
        if (seen.size() != wanted.size() || !new TreeSet<>(seen).equals(wanted)) {
            throw new AssertionError("wanted " + wanted + ", seen " + new TreeSet<>(seen) + ", " + seen.size() + " in all");
        }
        consumer.shutdown();
        producer.shutdown();
    }

    /** The broker says at the start that it cannot read a selector, and why. */
    private static void refused(String nameserver, String topic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(nameserver, "bad_" + topic, topic, "weight BETWEEN 10 AND 5");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            consumer.start();
        } catch (MQClientException error) {
            if (error.getResponseCode() == 23 && error.getMessage().contains("column 8")) {
                return;
            }
            throw error;
        }
        throw new AssertionError("a selector that nobody can read was taken");
    }

    private static DefaultMQPushConsumer consumer(String nameserver, String group, String topic, String selector)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(selector));
        return consumer;
    }
}
