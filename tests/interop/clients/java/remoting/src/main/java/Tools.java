import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What tools and brokers ask of clients that are there: `Tools MODE NAMESERVER TOPIC [FILE]`.
 *
 * Mode `member` stays as long as its input does, and says at each byte of it how much was consumed.
 * Mode `placed` does too; it puts as many messages into each queue, and tells at its start who it is and what it sent last.
 * Mode `commands` runs the mqadmin commands of FILE, one a line, arguments separated by tabs, beside a producer and a consumer.
 */
public final class Tools {
    private static String nameserver;
    private static String topic;
    private static String group;
    private static final ConcurrentLinkedQueue<String> SEEN = new ConcurrentLinkedQueue<>();

    private Tools() {
    }

    public static void main(String[] args) {
        nameserver = args[1];
        topic = args[2];
        group = "cg_" + topic;
        try {
            switch (args[0]) {
                case "commands": commands(Path.of(args[3])); break;
                case "callbacks": callbacks(); break;
                case "reset": reset(); break;
                case "request": request(); break;
                case "member": member(); break;
                case "placed": placed(); break;
                default: throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("OK " + args[0]);
        System.exit(0);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void until(String what, int seconds, BooleanSupplier holds) throws Exception {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < limit, "not within " + seconds + " s: " + what);
            Thread.sleep(20);
        }
    }

    private static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + topic);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        producer.createTopic("TBW102", topic, 4, Map.of());
        return producer;
    }

    private static DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> SEEN.add(new String(each.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static DefaultMQAdminExt admin() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(nameserver);
        admin.setInstanceName("tool" + System.nanoTime());
        admin.start();
        return admin;
    }

    private static SendResult send(DefaultMQProducer producer, int count) throws Exception {
        SendResult last = null;
        for (int i = 0; i < count; i++) {
            last = producer.send(new Message(topic, "TagA", "key" + i, ("m" + i).getBytes(StandardCharsets.UTF_8)));
        }
        return last;
    }

    private static void commands(Path file) throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer();
        SendResult last = send(producer, 20);
        until("all consumed", 60, () -> SEEN.size() >= 20);
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        int number = 0;
        for (String line : Files.readAllLines(file)) {
            String[] words = line.replace("{client}", client).replace("{offset-id}", last.getOffsetMsgId())
                .replace("{unique-id}", last.getMsgId()).split("\t");
            String said = Console.run(words);
            System.out.println("=== " + number++);
            System.out.println(said);
        }
        System.out.println("=== end");
    }

    /** A producer that sends ten messages and a consumer, there until their input ends. */
    private static void member() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer();
        send(producer, 10);
        System.out.println("ready");
        stay(producer, consumer);
    }

    /** The same, with message N in queue N of all queues in their order, and a line: its client, an offset id and a unique id. */
    private static void placed() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer();
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        Collections.sort(queues);
        SendResult last = null;
        for (int i = 0; i < 2 * queues.size(); i++) {
            Message message = new Message(topic, "TagA", "key" + i, ("m" + i).getBytes(StandardCharsets.UTF_8));
            last = producer.send(message, queues.get(i % queues.size()));
        }
        until("all consumed", 60, () -> SEEN.size() >= 2 * queues.size());
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        System.out.println(client + " " + last.getOffsetMsgId() + " " + last.getMsgId());
        stay(producer, consumer);
    }

    private static void stay(DefaultMQProducer producer, DefaultMQPushConsumer consumer) throws Exception {
        System.out.flush();
        while (System.in.read() >= 0) {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            System.out.println("seen " + SEEN.size());
            System.out.flush();
        }
        consumer.shutdown();
        producer.shutdown();
    }

    private static void callbacks() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer();
        SendResult last = send(producer, 8);
        until("all consumed", 60, () -> SEEN.size() >= 8);
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        DefaultMQAdminExt admin = admin();
        ConsumerRunningInfo info = admin.getConsumerRunningInfo(group, client, true);
        check(info.getMqTable().size() >= 4, "queues of the client: " + info.getMqTable());
        check(info.getJstack() != null && info.getJstack().contains("java.lang"), "stacks");
        check("CONSUME_PASSIVELY".equals(info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE)), "type");
        SEEN.clear();
        ConsumeMessageDirectlyResult result = admin.consumeMessageDirectly(group, client, topic, last.getOffsetMsgId());
        check(result.getConsumeResult() == CMResult.CR_SUCCESS, result.toString());
        check(SEEN.contains("m7"), "consumed directly: " + SEEN);
        Map<String, Map<MessageQueue, Long>> status = admin.getConsumeStatus(topic, group, client);
        long sum = status.get(client).values().stream().mapToLong(Long::longValue).sum();
        check(sum == 8, "positions in memory: " + status);
        try {
            admin.getConsumerRunningInfo(group, "nobody@1", false);
            check(false, "a client that is not there answered");
        } catch (Exception expected) {
            check(expected.getMessage().contains("not online"), expected.toString());
        }
        admin.shutdown();
        consumer.shutdown();
        producer.shutdown();
    }

    private static void reset() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQPushConsumer consumer = consumer();
        send(producer, 12);
        until("all consumed", 60, () -> SEEN.size() >= 12);
        SEEN.clear();
        DefaultMQAdminExt admin = admin();
        Map<MessageQueue, Long> offsets = admin.resetOffsetByTimestamp(topic, group, 1, true);
        check(offsets.size() == 4 && offsets.values().stream().allMatch(each -> each == 0), offsets.toString());
        until("everything again, online", 90, () -> SEEN.size() >= 12);
        // A client that has been sent request 220 begins again 10 s later.
        Thread.sleep(15_000);
        check(SEEN.size() == 12, SEEN.size() + " messages instead of 12 after the reset");
        consumer.shutdown();
        SEEN.clear();
        admin.resetOffsetByTimestamp(topic, group, 1, true);
        DefaultMQPushConsumer again = consumer();
        until("everything again, offline", 60, () -> SEEN.size() >= 12);
        check(SEEN.size() == 12, SEEN.size() + " messages instead of 12 after the reset offline");
        admin.shutdown();
        again.shutdown();
        producer.shutdown();
    }

    private static void request() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQProducer replier = new DefaultMQProducer("replier_" + topic);
        replier.setNamesrvAddr(nameserver);
        replier.setSendMsgTimeout(15_000);
        replier.setInstanceName("replier");
        replier.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName("server");
        consumer.subscribe(topic, "*");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> {
                try {
                    byte[] body = ("re " + new String(each.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(each, body), 3000);
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int i = 0; i < 5; i++) {
            byte[] body = ("q" + i).getBytes(StandardCharsets.UTF_8);
            Message answer = producer.request(new Message(topic, body), 20_000);
            String text = new String(answer.getBody(), StandardCharsets.UTF_8);
            check(text.equals("re q" + i), text);
        }
        ConcurrentLinkedQueue<String> answers = new ConcurrentLinkedQueue<>();
        producer.request(new Message(topic, "async".getBytes(StandardCharsets.UTF_8)), new RequestCallback() {
            @Override
            public void onSuccess(Message answer) {
                answers.add(new String(answer.getBody(), StandardCharsets.UTF_8));
            }

            @Override
            public void onException(Throwable error) {
                answers.add(error.toString());
            }
        }, 20_000);
        until("an asynchronous answer", 30, () -> !answers.isEmpty());
        // Client 5.5.0 may call back twice, when the answer comes while the acknowledgement of the request is handled.
        check(Set.copyOf(answers).equals(Set.of("re async")), answers.toString());
        consumer.shutdown();
        replier.shutdown();
        producer.shutdown();
    }
}
