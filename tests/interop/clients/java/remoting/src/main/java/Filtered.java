import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** A push consumer that selects by properties. */
final class Filtered {
    private static final String SELECTOR = "(weight BETWEEN 5 AND 10 AND color IN ('red', 'green')) OR note CONTAINS 'it''s'";

    private Filtered() {
    }

    static void pull(Stage stage) throws Exception {
        select(stage, false);
    }

    static void pop(Stage stage) throws Exception {
        select(stage, true);
    }

    private static void select(Stage stage, boolean pops) throws Exception {
        DefaultMQProducer producer = stage.producer();
        refused(stage);
        if (pops) {
            stage.popped(stage.group);
        }
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.subscribe(stage.topic, MessageSelector.bySql(SELECTOR));
        consumer.setClientRebalance(!pops);
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        TreeSet<String> wanted = new TreeSet<>();
        List<String> colors = List.of("red", "green", "blue");
        for (int i = 0; i < 60; i++) {
            Message message = stage.message("m" + i);
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
        Stage.until("all that the selector wants", 60, () -> seen.size() >= wanted.size());
        Thread.sleep(500);
        Stage.same(seen, wanted);
    }

    /** The broker says at the start that it cannot read a selector, and why. */
    private static void refused(Stage stage) throws Exception {
        DefaultMQPushConsumer consumer = stage.consumer("bad-" + stage.group, stage.topic);
        consumer.subscribe(stage.topic, MessageSelector.bySql("weight BETWEEN 10 AND 5"));
        consumer.registerMessageListener(Stage.taking(new ConcurrentLinkedQueue<>()));
        try {
            consumer.start();
        } catch (MQClientException error) {
            Stage.check(error.getResponseCode() == 23 && error.getMessage().contains("column 8"), error.toString());
            return;
        }
        throw new AssertionError("a selector that nobody can read was taken");
    }
}
