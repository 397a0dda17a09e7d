import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers whose name server and broker is Apache's proxy. It makes no topics: they are there, with four queues. */
final class Proxied {
    private static final int QUEUES = 4;

    private Proxied() {
    }

    /** Two members share the queues, each message comes once, and one that failed a second time. */
    static void push(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            DefaultMQPushConsumer member = stage.consumer();
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                MessageExt each = messages.get(0);
                seen.add(Stage.text(each) + " " + each.getReconsumeTimes());
                context.setDelayLevelWhenNextConsume(1);
                boolean fails = Stage.text(each).equals("3") && each.getReconsumeTimes() == 0;
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            member.start();
            members.add(member);
        }
        Stage.until("two members share the queues", 60,
            () -> members.stream().allMatch(member -> stage.owned(member) == QUEUES / 2));
        List<String> wanted = new ArrayList<>(List.of("3 1"));
        for (int number = 0; number < 40; number++) {
            producer.send(stage.message(String.valueOf(number)));
            wanted.add(number + " 0");
        }
        Stage.until("all messages, of which there are " + wanted.size(), 60, () -> seen.size() >= wanted.size());
        Thread.sleep(500);
        Stage.same(seen, wanted);
    }
}
