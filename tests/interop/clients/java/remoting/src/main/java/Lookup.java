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
        producer.send(new Message(topic, "A", "red blue", "one".getBytes(StandardCharsets.UTF_8)));
        producer.send(new Message(topic, "A", "green blue", "two".getBytes(StandardCharsets.UTF_8)));
        SendResult traced = producer.send(new Message(topic, "A", "traced", "three".getBytes(StandardCharsets.UTF_8)));

        QueryResult blue = producer.queryMessage(topic, "blue", 10, before - 1_000, before + 600_000);
        List<String> bodies = blue.getMessageList().stream().map(Stage::text).sorted().collect(Collectors.toList());
        Stage.check(bodies.equals(List.of("one", "two")), "by a key of two: " + bodies);
        Stage.check(blue.getIndexLastUpdateTimestamp() >= before - 1_000, "when the index was written");
        Stage.check(producer.queryMessage(topic, "blue", 1, 0, before + 600_000).getMessageList().size() == 1, "no more than asked for");
        try {
            producer.queryMessage(topic, "blue", 10, 0, before - 60_000);
            Stage.check(false, "found before it was sent");
        } catch (MQClientException error) {
            Stage.check(error.getResponseCode() == 208, "nothing found: " + error);
        }

        MessageExt byId = producer.viewMessage(topic, traced.getMsgId());
        Stage.check(Stage.text(byId).equals("three") && byId.getKeys().equals("traced"), "by unique id: " + byId);
        MessageExt byPlace = producer.viewMessage(topic, traced.getOffsetMsgId());
        Stage.check(byPlace.getMsgId().equals(traced.getMsgId()), "by offset id: " + byPlace);
        producer.shutdown();
        System.out.println("FOUND " + traced.getMsgId() + " " + traced.getOffsetMsgId() + " "
            + traced.getMessageQueue().getQueueId() + " " + traced.getQueueOffset());
    }
}
