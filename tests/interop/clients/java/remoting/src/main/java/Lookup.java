import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends and finds again: `Lookup NAMESERVER TOPIC`. Prints unique id, offset id, queue and offset of a traced message. */
public final class Lookup {
    private Lookup() {
    }

    public static void main(String[] args) {
        try {
            run(args[0], args[1]);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String nameserver, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("pg_" + UUID.randomUUID(), true, null);
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        long before = System.currentTimeMillis();
        producer.send(new Message(topic, "A", "red blue", bytes("one")));
        producer.send(new Message(topic, "A", "green blue", bytes("two")));
        SendResult traced = producer.send(new Message(topic, "A", "traced", bytes("three")));

        QueryResult blue = producer.queryMessage(topic, "blue", 10, before - 1_000, before + 600_000);
        List<String> bodies = blue.getMessageList().stream().map(Lookup::text).sorted().collect(Collectors.toList());
        check(bodies.equals(List.of("one", "two")), "by a key of two: " + bodies);
        check(blue.getIndexLastUpdateTimestamp() >= before - 1_000, "when the index was written");
        check(producer.queryMessage(topic, "blue", 1, 0, before + 600_000).getMessageList().size() == 1, "no more than asked for");
        try {
            producer.queryMessage(topic, "blue", 10, 0, before - 60_000);
            check(false, "found before it was sent");
        } catch (MQClientException error) {
            check(error.getResponseCode() == 208, "nothing found: " + error);
        }

        MessageExt byId = producer.viewMessage(topic, traced.getMsgId());
        check(text(byId).equals("three") && byId.getKeys().equals("traced"), "by unique id: " + byId);
        MessageExt byPlace = producer.viewMessage(topic, traced.getOffsetMsgId());
        check(byPlace.getMsgId().equals(traced.getMsgId()), "by offset id: " + byPlace);
        producer.shutdown();
        System.out.println("FOUND " + traced.getMsgId() + " " + traced.getOffsetMsgId() + " "
            + traced.getMessageQueue().getQueueId() + " " + traced.getQueueOffset());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
