import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

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
        consumer.registerMessageListener(Stage.taking(SEEN));
        consumer.start();
        return consumer;
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
        Stage.until("all consumed", 60, () -> SEEN.size() >= 20);
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
        Stage.until("all consumed", 60, () -> SEEN.size() >= 2 * queues.size());
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
}
