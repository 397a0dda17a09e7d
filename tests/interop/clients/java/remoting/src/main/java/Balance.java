import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.IntFunction;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** Who of a group gets which queues. */
final class Balance {
    private static final int QUEUES = 8;

    private Balance() {
    }

    /** Two members per strategy, all groups on one topic: each message once in each group. */
    static void strategies(Stage stage) throws Exception {
        Map<String, IntFunction<AllocateMessageQueueStrategy>> ways = new LinkedHashMap<>();
        ways.put("averagely", member -> new AllocateMessageQueueAveragely());
        ways.put("circle", member -> new AllocateMessageQueueAveragelyByCircle());
        ways.put("hash", member -> new AllocateMessageQueueConsistentHash());
        ways.put("config", member -> {
            AllocateMessageQueueByConfig fixed = new AllocateMessageQueueByConfig();
            fixed.setMessageQueueList(queues(stage, member * QUEUES / 2, QUEUES / 2));
            return fixed;
        });
        Set<String> near = new HashSet<>();
        ways.put("nearby", member -> new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(),
            new AllocateMachineRoomNearby.MachineRoomResolver() {
                @Override
                public String brokerDeployIn(MessageQueue queue) {
                    return "here";
                }

                @Override
                public String consumerDeployIn(String client) {
                    return near.stream().anyMatch(client::endsWith) ? "here" : "elsewhere";
                }
            }));
        DefaultMQProducer producer = stage.producer();
        Map<String, List<DefaultMQPushConsumer>> members = new LinkedHashMap<>();
        Map<String, ConcurrentLinkedQueue<String>> seen = new LinkedHashMap<>();
        for (Map.Entry<String, IntFunction<AllocateMessageQueueStrategy>> way : ways.entrySet()) {
            ConcurrentLinkedQueue<String> bodies = new ConcurrentLinkedQueue<>();
            seen.put(way.getKey(), bodies);
            members.put(way.getKey(), pair(stage, way.getKey(), way.getValue(), near, bodies));
        }
        for (Map.Entry<String, List<DefaultMQPushConsumer>> each : members.entrySet()) {
            long wanted = each.getKey().equals("nearby") ? QUEUES : QUEUES / 2;
            Stage.until(each.getKey() + " is balanced", 90, () -> balanced(stage, each.getValue(), each.getKey(), wanted));
        }
        once(stage, producer, seen);
    }

    /** By machine room: the broker's name says its room, and members take the queues of theirs. */
    static void rooms(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> bodies = new ConcurrentLinkedQueue<>();
        List<DefaultMQPushConsumer> both = pair(stage, "rooms", member -> {
            AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
            rooms.setConsumeridcs(Set.of("room1"));
            return rooms;
        }, new HashSet<>(), bodies);
        Stage.until("the room's queues are shared", 60, () -> balanced(stage, both, "rooms", QUEUES / 2));
        once(stage, producer, Map.of("rooms", bodies));
    }

    private static List<MessageQueue> queues(Stage stage, int first, int count) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int at = first; at < first + count; at++) {
            queues.add(new MessageQueue(stage.topic, "broker-a", at));
        }
        return queues;
    }

    private static List<DefaultMQPushConsumer> pair(Stage stage, String name, IntFunction<AllocateMessageQueueStrategy> way,
        Set<String> near, ConcurrentLinkedQueue<String> bodies) throws Exception {
        List<DefaultMQPushConsumer> both = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = stage.consumer(stage.group + "-" + name, stage.topic);
            if (name.equals("nearby") && member == 0) {
                near.add(consumer.getInstanceName());
            }
            consumer.setAllocateMessageQueueStrategy(way.apply(member));
            consumer.registerMessageListener(Stage.taking(bodies));
            both.add(consumer);
        }
        for (DefaultMQPushConsumer each : both) {
            each.start();
        }
        return both;
    }

    /** Every queue has one owner; with consistent hashes nobody can say how many each has. */
    private static boolean balanced(Stage stage, List<DefaultMQPushConsumer> both, String name, long first) {
        long one = stage.owned(both.get(0));
        long two = stage.owned(both.get(1));
        return one + two == QUEUES && (name.equals("hash") || one == first);
    }

    private static void once(Stage stage, DefaultMQProducer producer, Map<String, ConcurrentLinkedQueue<String>> seen)
        throws Exception {
        Set<String> wanted = new HashSet<>();
        for (int number = 0; number < 80; number++) {
            producer.send(stage.message("m" + number));
            wanted.add("m" + number);
        }
        for (Map.Entry<String, ConcurrentLinkedQueue<String>> each : seen.entrySet()) {
            Stage.until("group " + each.getKey() + " has all", 60, () -> each.getValue().size() >= wanted.size());
        }
        Thread.sleep(500);
        seen.values().forEach(bodies -> Stage.same(bodies, wanted));
    }

    /** Members come and go while messages flow: nothing is lost. What the switches cost in repetitions is printed. */
    static void members(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        Set<String> wanted = new HashSet<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        int[][] shares = {{8}, {4, 4}, {3, 3, 2}};
        for (int[] share : shares) {
            members.add(stage.into(seen, stage.group, stage.topic));
            flow(stage, producer, wanted, members, share);
        }
        members.remove(0).shutdown();
        flow(stage, producer, wanted, members, shares[1]);
        members.remove(0).shutdown();
        flow(stage, producer, wanted, members, shares[0]);
        Stage.until("nothing is lost", 60, () -> new HashSet<>(seen).containsAll(wanted));
        Thread.sleep(500);
        System.out.println("members: " + (seen.size() - wanted.size()) + " of " + wanted.size() + " messages came again");
        Stage.same(new HashSet<>(seen), wanted);
    }

    private static void flow(Stage stage, DefaultMQProducer producer, Set<String> wanted, List<DefaultMQPushConsumer> members,
        int[] share) throws Exception {
        long limit = System.nanoTime() + 60_000_000_000L;
        List<Long> right = new ArrayList<>();
        for (int each : share) {
            right.add((long) each);
        }
        List<Long> now = new ArrayList<>();
        while (!now.equals(right)) {
            Stage.check(System.nanoTime() < limit, "shares of " + members.size() + " members: " + now);
            String body = "m" + wanted.size();
            producer.send(stage.message(body));
            wanted.add(body);
            Thread.sleep(20);
            now.clear();
            members.forEach(each -> now.add(stage.owned(each)));
            now.sort((a, b) -> Long.compare(b, a));
        }
    }
}
