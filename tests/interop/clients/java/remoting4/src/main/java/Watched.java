import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.CMResult;
import org.apache.rocketmq.common.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;

/** Where consumers of the 4.x client begin, and what they tell of themselves. */
final class Watched {
    private static final int TIMEOUT_MS = 15_000;

    private Watched() {
    }

    /** From the first message, from an instant, from the last one. A group that is new begins at the first one for the last one too. */
    static void fromWhere(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Set<String> early = sent(stage, producer, "early");
        Thread.sleep(2_100);
        String instant = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date());
        Thread.sleep(1_100);
        Set<String> late = sent(stage, producer, "late");
        List<ConcurrentLinkedQueue<String>> seen = new ArrayList<>();
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)) {
            ConcurrentLinkedQueue<String> bodies = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer consumer = stage.from(new DefaultMQPushConsumer(stage.group + seen.size()));
            consumer.subscribe(stage.topic, "*");
            consumer.setConsumeFromWhere(where);
            consumer.setConsumeTimestamp(instant);
            consumer.registerMessageListener(Stage.taking(bodies));
            consumer.start();
            Stage.until("it has its queues", 60,
                () -> consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                    .filter(queue -> queue.getTopic().equals(stage.topic)).count() == Stage.QUEUES);
            seen.add(bodies);
        }
        Set<String> wanted = sent(stage, producer, "last");
        wanted.addAll(late);
        Stage.same("since the instant", seen.get(1), wanted);
        wanted.addAll(early);
        Stage.same("from the first", seen.get(0), wanted);
        Stage.same("from the last", seen.get(2), wanted);
    }

    private static Set<String> sent(Stage stage, DefaultMQProducer producer, String name) throws Exception {
        Set<String> bodies = new HashSet<>();
        for (int at = 0; at < 20; at++) {
            producer.send(stage.message(name + at));
            bodies.add(name + at);
        }
        return bodies;
    }

    /** A member tells its queues, its subscriptions and its stacks, and consumes a message that it is handed by its id. */
    static void running(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        SendResult last = null;
        List<String> wanted = new ArrayList<>();
        for (int at = 0; at < 8; at++) {
            last = producer.send(stage.message("m" + at));
            wanted.add("m" + at);
        }
        Stage.same("all", seen, wanted);
        MQClientInstance client = producer.getDefaultMQProducerImpl().getmQClientFactory();
        MQClientAPIImpl api = client.getMQClientAPIImpl();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(stage.topic);
        String broker = client.findBrokerAddressInPublish(queues.get(0).getBrokerName());
        String member = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        ConsumerRunningInfo info = api.getConsumerRunningInfo(broker, stage.group, member, true, TIMEOUT_MS);
        Stage.check(info.getMqTable().keySet().containsAll(queues), "queues " + info.getMqTable().keySet());
        Stage.check(info.getSubscriptionSet().stream().anyMatch(each -> each.getTopic().equals(stage.topic)), "subscriptions");
        Stage.check(info.getJstack() != null && info.getJstack().contains("java.lang"), "stacks " + info.getJstack());
        Stage.check("CONSUME_PASSIVELY".equals(info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE)), "type");
        ConsumeMessageDirectlyResult result = api.consumeMessageDirectly(
            broker, stage.group, member, last.getOffsetMsgId(), TIMEOUT_MS);
        Stage.check(result.getConsumeResult() == CMResult.CR_SUCCESS, result.toString());
        wanted.add("m7");
        Stage.check(List.copyOf(seen).get(seen.size() - 1).equals("m7") && seen.size() == wanted.size(), "consumed directly: " + seen);
    }
}
