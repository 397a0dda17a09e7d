import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What tools and other clients ask of clients that are there. */
final class Inquiries {
    private Inquiries() {
    }

    private static SendResult send(Stage stage, DefaultMQProducer producer, int count) throws Exception {
        SendResult last = null;
        for (int i = 0; i < count; i++) {
            last = producer.send(stage.message("m" + i));
        }
        return last;
    }

    static void callbacks(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.into(seen, stage.group, stage.topic);
        SendResult last = send(stage, producer, 8);
        Stage.until("all consumed", 60, () -> seen.size() >= 8);
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        DefaultMQAdminExt admin = stage.admin();
        ConsumerRunningInfo info = admin.getConsumerRunningInfo(stage.group, client, true);
        Stage.check(info.getMqTable().size() >= 4, "queues of the client: " + info.getMqTable());
        Stage.check(info.getJstack() != null && info.getJstack().contains("java.lang"), "stacks");
        Stage.check("CONSUME_PASSIVELY".equals(info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE)), "type");
        seen.clear();
        ConsumeMessageDirectlyResult result = admin.consumeMessageDirectly(stage.group, client, stage.topic, last.getOffsetMsgId());
        Stage.check(result.getConsumeResult() == CMResult.CR_SUCCESS, result.toString());
        Stage.check(seen.contains("m7"), "consumed directly: " + seen);
        Map<String, Map<MessageQueue, Long>> status = admin.getConsumeStatus(stage.topic, stage.group, client);
        long sum = status.get(client).values().stream().mapToLong(Long::longValue).sum();
        Stage.check(sum == 8, "positions in memory: " + status);
        try {
            admin.getConsumerRunningInfo(stage.group, "nobody@1", false);
            Stage.check(false, "a client that is not there answered");
        } catch (Exception expected) {
            Stage.check(expected.getMessage().contains("not online"), expected.toString());
        }
    }

    static void reset(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.into(seen, stage.group, stage.topic);
        send(stage, producer, 12);
        Stage.until("all consumed", 60, () -> seen.size() >= 12);
        seen.clear();
        DefaultMQAdminExt admin = stage.admin();
        Map<MessageQueue, Long> offsets = admin.resetOffsetByTimestamp(stage.topic, stage.group, 1, true);
        Stage.check(offsets.size() == 8 && offsets.values().stream().allMatch(each -> each == 0), offsets.toString());
        Stage.until("everything again, online", 90, () -> seen.size() >= 12);
        // A client that has been sent request 220 begins again 10 s later.
        Thread.sleep(15_000);
        Stage.check(seen.size() == 12, seen.size() + " messages instead of 12 after the reset");
        consumer.shutdown();
        seen.clear();
        admin.resetOffsetByTimestamp(stage.topic, stage.group, 1, true);
        stage.into(seen, stage.group, stage.topic);
        Stage.until("everything again, offline", 60, () -> seen.size() >= 12);
        Stage.check(seen.size() == 12, seen.size() + " messages instead of 12 after the reset offline");
    }

    static void request(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        DefaultMQProducer replier = stage.started(new DefaultMQProducer("replier-" + stage.topic));
        DefaultMQPushConsumer consumer = stage.consumer();
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
            Message answer = producer.request(new Message(stage.topic, body), 20_000);
            String text = new String(answer.getBody(), StandardCharsets.UTF_8);
            Stage.check(text.equals("re q" + i), text);
        }
        ConcurrentLinkedQueue<String> answers = new ConcurrentLinkedQueue<>();
        producer.request(new Message(stage.topic, "async".getBytes(StandardCharsets.UTF_8)), new RequestCallback() {
            @Override
            public void onSuccess(Message answer) {
                answers.add(new String(answer.getBody(), StandardCharsets.UTF_8));
            }

            @Override
            public void onException(Throwable error) {
                answers.add(error.toString());
            }
        }, 20_000);
        Stage.until("an asynchronous answer", 30, () -> !answers.isEmpty());
        // Client 5.5.0 may call back twice, when the answer comes while the acknowledgement of the request is handled.
        Stage.check(Set.copyOf(answers).equals(Set.of("re async")), answers.toString());
    }
}
