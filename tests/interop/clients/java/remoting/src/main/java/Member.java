import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * One member of a group until it is killed: `Member pop|push NAMESERVER BROKER GROUP TOPIC`. Prints `got BODY SECONDS` and
 * `done BODY SECONDS` for each message, and `ready` when it takes part.
 */
public final class Member {
    private static final long POP_INVISIBLE_MS = 10_000;
    private static final long WORK_MS = 10;
    /** Of a machine that is so busy that five seconds are not enough. */
    private static final int ATTEMPTS = 10;

    private Member() {
    }

    public static void main(String[] args) throws Exception {
        boolean pop = args[0].equals("pop");
        String group = args[3];
        String topic = args[4];
        if (pop) {
            DefaultMQAdminExt admin = new DefaultMQAdminExt();
            admin.setNamesrvAddr(args[1]);
            admin.setInstanceName("admin" + System.nanoTime());
            admin.start();
            for (int attempt = 1; ; attempt++) {
                try {
                    admin.setMessageRequestMode(args[2], topic, group, MessageRequestMode.POP, 0, 5_000);
                    break;
                } catch (RemotingException error) {
                    if (attempt == ATTEMPTS) {
                        throw error;
                    }
                }
            }
            admin.shutdown();
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(args[1]);
        consumer.setInstanceName(args[0] + System.nanoTime());
        consumer.setClientRebalance(!pop);
        consumer.setPopInvisibleTime(POP_INVISIBLE_MS);
        consumer.setPopBatchNums(4);
        consumer.setPullBatchSize(4);
        consumer.setPullThresholdForQueue(8);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.setPersistConsumerOffsetInterval(200);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                say("got", body);
                try {
                    Thread.sleep(WORK_MS);
                } catch (InterruptedException error) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                say("done", body);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("ready", "-");
        Thread.currentThread().join();
    }

    private static synchronized void say(String word, String body) {
        System.out.println(word + " " + body + " " + String.format(java.util.Locale.ROOT, "%.3f", System.currentTimeMillis() / 1000.0));
    }
}
