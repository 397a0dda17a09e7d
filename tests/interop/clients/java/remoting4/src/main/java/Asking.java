import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What the 4.x client asks and is asked: transactions, requests, traces. */
final class Asking {
    private static final int ROUNDS = 6;

    private Asking() {
    }

    /** Messages committed, rolled back, and left open: those are asked about, and every other one is then committed. */
    static void transaction(Stage stage) throws Exception {
        Set<String> asked = ConcurrentHashMap.newKeySet();
        TransactionMQProducer producer = new TransactionMQProducer("pg-" + stage.topic);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(Stage.text(message) + " of " + message.getTopic());
                return Stage.text(message).endsWith("0") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        stage.prepared(producer);
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        Set<String> wanted = new TreeSet<>();
        Set<String> open = new HashSet<>();
        for (int i = 0; i < ROUNDS; i++) {
            for (LocalTransactionState state : LocalTransactionState.values()) {
                String body = state + " " + i + " " + i % 2;
                SendResult result = producer.sendMessageInTransaction(stage.message(body), state);
                Stage.check(result.getTransactionId().equals(result.getMsgId()), result.toString());
                if (state == LocalTransactionState.UNKNOW) {
                    open.add(body + " of " + stage.topic);
                }
                if (state == LocalTransactionState.COMMIT_MESSAGE || state == LocalTransactionState.UNKNOW && i % 2 == 0) {
                    wanted.add(body);
                }
            }
        }
        Stage.same("transactions", seen, wanted);
        Stage.until("all that was left open is asked about", 60, () -> asked.size() >= ROUNDS);
        Stage.check(asked.equals(open), "asked about " + asked + ", left open " + open);
    }

    /** Requests that wait, and one with a callback, answered by a consumer. */
    static void request(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        DefaultMQProducer replier = stage.started(new DefaultMQProducer("replier-" + stage.topic));
        DefaultMQPushConsumer consumer = stage.consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                try {
                    replier.send(MessageUtil.createReplyMessage(each, ("re " + Stage.text(each)).getBytes(StandardCharsets.UTF_8)));
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int i = 0; i < 5; i++) {
            String answer = Stage.text(producer.request(stage.message("q" + i), 60_000));
            Stage.check(answer.equals("re q" + i), answer);
        }
        ConcurrentLinkedQueue<String> answers = new ConcurrentLinkedQueue<>();
        producer.request(stage.message("later"), new RequestCallback() {
            @Override
            public void onSuccess(Message answer) {
                answers.add(Stage.text(answer));
            }

            @Override
            public void onException(Throwable error) {
                answers.add(error.toString());
            }
        }, 60_000);
        Stage.same("answers to callbacks", answers, List.of("re later"));
    }

    /** A traced producer and a traced consumer leave word of a message: sent, about to be consumed, consumed. */
    static void trace(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.prepared(new DefaultMQProducer("pg-" + stage.topic, true));
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.from(new DefaultMQPushConsumer(stage.group, true));
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener(Stage.taking(seen));
        consumer.start();
        String id = producer.send(stage.message("traced")).getMsgId();
        Stage.same("traced messages", seen, List.of("traced"));
        Set<TraceType> wanted = Set.of(TraceType.Pub, TraceType.SubBefore, TraceType.SubAfter);
        Stage.until("three words of trace", 60, () -> traced(producer, id).equals(wanted));
    }

    private static Set<TraceType> traced(DefaultMQProducer producer, String id) {
        List<MessageExt> words = new ArrayList<>();
        try {
            long now = System.currentTimeMillis();
            words.addAll(producer.queryMessage("RMQ_SYS_TRACE_TOPIC", id, 32, now - 600_000, now + 60_000).getMessageList());
        } catch (MQClientException | InterruptedException absent) {
            return Set.of();
        }
        Set<TraceType> found = new HashSet<>();
        for (MessageExt each : words) {
            for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(Stage.text(each))) {
                if (context.getTraceBeans().get(0).getMsgId().equals(id)) {
                    found.add(context.getTraceType());
                }
            }
        }
        return found;
    }
}
