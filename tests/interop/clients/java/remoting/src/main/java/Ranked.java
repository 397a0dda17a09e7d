import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Priorities (`Message.setPriority`) in a topic of that type: the queue is the priority, and a POP consumer has the highest first.
 * The admin client makes the topic: a producer's createTopic takes attributes and sends none.
 */
final class Ranked {
    private static final int PRIORITIES = 4;
    private static final int COUNT = 24;

    private Ranked() {
    }

    static void priority(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.started(new DefaultMQProducer("pg-" + stage.topic));
        stage.admin().createTopic("TBW102", stage.topic, PRIORITIES, Map.of("+message.type", "PRIORITY"));
        stage.popped(stage.group);
        for (int number = 0; number < COUNT; number++) {
            Message message = stage.message(String.valueOf(number));
            message.setPriority(number % PRIORITIES);
            SendResult sent = producer.send(message);
            Stage.check(sent.getMessageQueue().getQueueId() == number % PRIORITIES, number + " is in " + sent.getMessageQueue());
        }
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.setClientRebalance(false);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setPopBatchNums(5);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> seen.add(each.getPriority() + " " + Stage.text(each)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Stage.until("all of them", 90, () -> seen.size() >= COUNT);
        List<String> wanted = new ArrayList<>();
        for (int priority = PRIORITIES - 1; priority >= 0; priority--) {
            for (int number = priority; number < COUNT; number += PRIORITIES) {
                wanted.add(priority + " " + number);
            }
        }
        Stage.check(List.copyOf(seen).equals(wanted), seen.toString());
    }

    /** Messages that name several lite queues of their topic are sent; one that names a queue of another topic is refused. */
    static void several(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.started(new DefaultMQProducer("pg-" + stage.topic));
        stage.admin().createTopic("TBW102", stage.topic, 1, Map.of("+message.type", "LITE"));
        for (String names : List.of("a,b", "b,c")) {
            Message message = stage.message(names);
            List<String> queues = new ArrayList<>();
            for (String name : names.split(",")) {
                queues.add("%LMQ%$" + stage.topic + "$" + name);
            }
            message.putUserProperty("INNER_MULTI_DISPATCH", String.join(",", queues));
            producer.send(message);
        }
        Message foreign = stage.message("foreign");
        foreign.putUserProperty("INNER_MULTI_DISPATCH", "%LMQ%$other$a");
        try {
            producer.send(foreign);
        } catch (MQBrokerException error) {
            Stage.check(error.getResponseCode() == 13, error.toString());
            return;
        }
        throw new AssertionError("a queue of another topic was taken");
    }
}
