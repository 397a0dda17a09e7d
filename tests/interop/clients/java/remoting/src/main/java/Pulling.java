import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where consumers begin, and those that hold their positions in their own hands. */
final class Pulling {
    private Pulling() {
    }

    private static Set<String> send(Stage stage, DefaultMQProducer producer, String name, int count) throws Exception {
        Set<String> sent = new HashSet<>();
        for (int number = 0; number < count; number++) {
            producer.send(stage.message(name + number));
            sent.add(name + number);
        }
        return sent;
    }

    /**
     * Three fresh groups: from the first message, from an instant, and from the last, which is the first one as long as a queue's
     * beginning is still there: RocketMQ's rule, so that nobody misses what was sent just before the group was there.
     */
    static void fromWhere(Stage stage) throws Exception {
        fromWhere(stage, false);
    }

    /** The same when the first messages are no longer in the newest part of the log: the last group begins at the last one. */
    static void fromWhereCold(Stage stage) throws Exception {
        fromWhere(stage, true);
    }

    private static void fromWhere(Stage stage, boolean cold) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Set<String> early = send(stage, producer, "early", 20);
        for (int number = 0; cold && number < 64; number++) {
            producer.send(new Message(stage.topic + "-other", new byte[1_024]));
        }
        Thread.sleep(2_100);
        String instant = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date());
        Thread.sleep(1_100);
        Set<String> late = send(stage, producer, "late", 20);
        List<ConcurrentLinkedQueue<String>> seen = new ArrayList<>();
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)) {
            ConcurrentLinkedQueue<String> bodies = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer consumer = stage.consumer(stage.group + seen.size(), stage.topic);
            consumer.setConsumeFromWhere(where);
            consumer.setConsumeTimestamp(instant);
            consumer.registerMessageListener(Stage.taking(bodies));
            consumer.start();
            Stage.until("it has its queues", 60, () -> stage.owned(consumer) == 8);
            seen.add(bodies);
        }
        Set<String> last = send(stage, producer, "last", 20);
        Set<String> since = new HashSet<>(last);
        since.addAll(late);
        Set<String> all = new HashSet<>(since);
        all.addAll(early);
        List<Set<String>> wanted = List.of(all, since, cold ? last : all);
        for (int group = 0; group < 3; group++) {
            ConcurrentLinkedQueue<String> bodies = seen.get(group);
            int count = wanted.get(group).size();
            Stage.until("all of group " + group, 60, () -> bodies.size() >= count);
        }
        Thread.sleep(500);
        for (int group = 0; group < 3; group++) {
            Stage.same(seen.get(group), wanted.get(group));
        }
    }

    static DefaultLitePullConsumer lite(Stage stage) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(stage.group);
        consumer.setNamesrvAddr(stage.nameserver);
        consumer.setInstanceName(Stage.name());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private static List<String> polled(DefaultLitePullConsumer consumer, int count) throws Exception {
        List<String> bodies = new ArrayList<>();
        Stage.until(count + " messages polled", 30, () -> {
            consumer.poll(200).forEach(each -> bodies.add(Stage.text(each)));
            return bodies.size() >= count;
        });
        consumer.poll(500).forEach(each -> bodies.add(Stage.text(each)));
        return bodies;
    }

    private static List<String> row(String name, int first, int end) {
        List<String> bodies = new ArrayList<>();
        for (int number = first; number < end; number++) {
            bodies.add(name + number);
        }
        return bodies;
    }

    private static void equal(List<String> seen, List<String> wanted) {
        Stage.check(seen.equals(wanted), "polled " + seen + ", wanted " + wanted);
    }

    /** Queues assigned by hand: to the begin, the end, an offset, an instant; positions committed and found again. */
    static void assign(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        MessageQueue first = new MessageQueue(stage.topic, "broker-a", 0);
        MessageQueue second = new MessageQueue(stage.topic, "broker-a", 1);
        for (String body : row("m", 0, 10)) {
            producer.send(stage.message(body), first);
            producer.send(stage.message("n" + body), second);
        }
        Thread.sleep(50);
        long instant = System.currentTimeMillis();
        Thread.sleep(50);
        for (String body : row("m", 10, 20)) {
            producer.send(stage.message(body), first);
        }
        DefaultLitePullConsumer consumer = lite(stage);
        consumer.setAutoCommit(false);
        consumer.start();
        consumer.assign(List.of(first, second));
        consumer.seekToBegin(first);
        consumer.seekToEnd(second);
        equal(polled(consumer, 20), row("m", 0, 20));
        consumer.seek(first, 15);
        equal(polled(consumer, 5), row("m", 15, 20));
        Stage.check(consumer.offsetForTimestamp(first, instant) == 10, "by time: " + consumer.offsetForTimestamp(first, instant));
        consumer.seek(first, consumer.offsetForTimestamp(first, instant));
        equal(polled(consumer, 10), row("m", 10, 20));
        consumer.pause(List.of(first));
        producer.send(stage.message("m20"), first);
        equal(polled(consumer, 1), row("m", 20, 21));
        producer.send(stage.message("m21"), first);
        Stage.check(consumer.poll(1_000).isEmpty(), "a paused queue gave more than what its last pull was waiting for");
        consumer.resume(List.of(first));
        equal(polled(consumer, 1), row("m", 21, 22));
        consumer.commit();
        Stage.until("the position is committed", 20, () -> committed(consumer, first) == 22);
        consumer.shutdown();
        producer.send(stage.message("m22"), first);
        DefaultLitePullConsumer next = lite(stage);
        next.start();
        next.assign(List.of(first));
        equal(polled(next, 1), row("m", 22, 23));
        next.shutdown();
    }

    private static long committed(DefaultLitePullConsumer consumer, MessageQueue queue) {
        try {
            return consumer.committed(queue);
        } catch (org.apache.rocketmq.client.exception.MQClientException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Two subscribed members share the queues; the one that is left gets all of them. */
    static void subscribe(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<DefaultLitePullConsumer> members = List.of(lite(stage), lite(stage));
        for (DefaultLitePullConsumer each : members) {
            each.subscribe(stage.topic, "TagA || TagB");
            each.setAutoCommit(true);
            each.start();
        }
        List<ConcurrentLinkedQueue<String>> seen = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        List<Thread> threads = new ArrayList<>();
        List<Boolean> running = Collections.synchronizedList(new ArrayList<>(List.of(true, true)));
        for (int member = 0; member < 2; member++) {
            int at = member;
            threads.add(new Thread(() -> {
                while (running.get(at)) {
                    members.get(at).poll(100).forEach(each -> seen.get(at).add(Stage.text(each)));
                }
            }));
        }
        threads.forEach(Thread::start);
        Stage.until("both have four queues", 60, () -> {
            try {
                return members.get(0).assignment().size() == 4 && members.get(1).assignment().size() == 4;
            } catch (org.apache.rocketmq.client.exception.MQClientException error) {
                return false;
            }
        });
        Set<String> wanted = send(stage, producer, "both", 60);
        producer.send(stage.message("TagC", "unwanted"));
        Stage.until("all polled", 60, () -> seen.get(0).size() + seen.get(1).size() >= wanted.size());
        Stage.check(!seen.get(0).isEmpty() && !seen.get(1).isEmpty(), "one member got everything");
        running.set(1, false);
        threads.get(1).join();
        members.get(1).commit();
        members.get(1).shutdown();
        wanted.addAll(send(stage, producer, "one", 20));
        Stage.until("the one left has the rest", 60, () -> seen.get(0).size() + seen.get(1).size() >= wanted.size());
        running.set(0, false);
        threads.get(0).join();
        members.get(0).shutdown();
        List<String> all = new ArrayList<>(seen.get(0));
        all.addAll(seen.get(1));
        Stage.same(all, wanted);
    }

    /** The pull consumer of old: pulls that wait, positions in the application's hands. */
    @SuppressWarnings("deprecation")
    static void pull(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        Set<String> wanted = send(stage, producer, "m", 30);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(stage.group);
        consumer.setNamesrvAddr(stage.nameserver);
        consumer.setInstanceName(Stage.name());
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(stage.topic);
        List<String> seen = new ArrayList<>();
        for (MessageQueue queue : queues) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "TagA", offset, 7);
                Stage.check(result.getPullStatus() == PullStatus.FOUND, result.toString());
                for (MessageExt each : result.getMsgFoundList()) {
                    seen.add(Stage.text(each));
                }
                offset = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, offset);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            Stage.check(consumer.fetchConsumeOffset(queue, true) == offset, "the offset was not stored");
        }
        Stage.same(seen, wanted);
        MessageQueue any = queues.iterator().next();
        long end = consumer.maxOffset(any);
        Thread sender = new Thread(() -> {
            try {
                Thread.sleep(1_000);
                producer.send(stage.message("awaited"), any);
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        sender.start();
        PullResult result = consumer.pullBlockIfNotFound(any, "*", end, 7);
        Stage.check(result.getPullStatus() == PullStatus.FOUND, result.toString());
        Stage.check(Stage.text(result.getMsgFoundList().get(0)).equals("awaited"), result.toString());
        sender.join();
        consumer.shutdown();
    }
}
