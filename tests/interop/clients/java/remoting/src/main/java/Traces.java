import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What operators learn of producers and consumers. */
final class Traces {
    private Traces() {
    }

    /** A traced producer and a traced consumer leave word of a message: sent, about to be consumed, consumed. */
    static void trace(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.started(new DefaultMQProducer("pg-" + stage.topic, true, null));
        producer.createTopic("TBW102", stage.topic, 8, java.util.Map.of());
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(stage.group, true, null);
        consumer.setNamesrvAddr(stage.nameserver);
        consumer.setInstanceName(Stage.name());
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        Stage.until("queues", 60, () -> stage.owned(consumer) == 8);
        SendResult sent = producer.send(stage.message("traced"));
        Stage.until("consumed", 60, () -> seen.contains("traced"));
        DefaultMQAdminExt admin = stage.admin();
        Set<TraceType> found = new HashSet<>();
        Stage.until("three words of trace", 60, () -> {
            collect(admin, sent.getMsgId(), found);
            return found.size() >= 3;
        });
        Stage.check(found.equals(Set.of(TraceType.Pub, TraceType.SubBefore, TraceType.SubAfter)), found.toString());
        consumer.shutdown();
    }

    private static void collect(DefaultMQAdminExt admin, String id, Set<TraceType> found) {
        try {
            long now = System.currentTimeMillis();
            for (MessageExt each : admin.queryMessage("RMQ_SYS_TRACE_TOPIC", id, 32, now - 600_000, now + 60_000).getMessageList()) {
                for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(Stage.text(each))) {
                    if (context.getTraceBeans().get(0).getMsgId().equals(id)) {
                        found.add(context.getTraceType());
                    }
                }
            }
        } catch (MQClientException | InterruptedException absent) {
            found.clear();
        }
    }

    /** The group's backlog, after its member has reported: its listener returns before the client moves the position. */
    private static long backlog(DefaultMQPushConsumer member, DefaultMQAdminExt admin, Stage stage) {
        try {
            member.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return admin.examineConsumeStats(stage.group, stage.topic).computeTotalDiff();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A backlog skipped without a member is gone, and progress says so; a member then begins after it, and has a stack. */
    static void skip(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer first = stage.into(seen, stage.group, stage.topic);
        for (int number = 0; number < 16; number++) {
            producer.send(stage.message("before" + number));
        }
        Stage.until("the first messages", 60, () -> seen.size() >= 16);
        first.shutdown();
        for (int number = 0; number < 30; number++) {
            producer.send(stage.message("skipped" + number));
        }
        DefaultMQAdminExt admin = stage.admin();
        ConsumeStats lag = admin.examineConsumeStats(stage.group, stage.topic);
        Stage.check(lag.computeTotalDiff() == 30, "a backlog of " + lag.computeTotalDiff());
        admin.resetOffsetByTimestamp(stage.topic, stage.group, -1, true);
        lag = admin.examineConsumeStats(stage.group, stage.topic);
        Stage.check(lag.computeTotalDiff() == 0, "after skipping a backlog of " + lag.computeTotalDiff());
        seen.clear();
        DefaultMQPushConsumer second = stage.into(seen, stage.group, stage.topic);
        Stage.until("queues", 60, () -> stage.owned(second) == 8);
        for (int number = 0; number < 8; number++) {
            producer.send(stage.message("after" + number));
        }
        Set<String> wanted = new HashSet<>();
        for (int number = 0; number < 8; number++) {
            wanted.add("after" + number);
        }
        Stage.until("what came after", 60, () -> seen.size() >= 8);
        Stage.same(seen, wanted);
        Stage.until("no backlog at the end", 20, () -> backlog(second, admin, stage) == 0);
        String client = second.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        ConsumerRunningInfo info = admin.getConsumerRunningInfo(stage.group, client, true);
        Stage.check(info.getJstack() != null && info.getJstack().contains("PullMessageService"), "no stack of the client");
    }
}
