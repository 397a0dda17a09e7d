package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.producer.MQProducer;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.test.client.rmq.RMQAsyncSendProducer;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.client.rmq.RMQTransactionalProducer;
import org.apache.rocketmq.test.clientinterface.MQConsumer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.test.util.MQRandomUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.admin.MQAdminExt;

/**
 * Base class of RocketMQ's integration tests, with brokers outside of this process: the class of this name in their jar starts
 * a name server and three brokers. The properties `suite.nameserver`, `suite.cluster` and `suite.brokers` (three times
 * `NAME@HOST:PORT`, separated by commas) have their addresses. With `suite.register=true` each broker is a node with a name server
 * of its own, the first one that of `suite.nameserver`.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR = System.getProperty("suite.nameserver");
    protected static final String CLUSTER_NAME = System.getProperty("suite.cluster");
    protected static final String BROKER1_NAME;
    protected static final String BROKER2_NAME;
    protected static final String BROKER3_NAME;
    protected static final int QUEUE_NUMBERS = 8;

    /** null: tests that use the name server object are left out. */
    protected static NamesrvController namesrvController = null;
    protected static BrokerController brokerController1;
    protected static BrokerController brokerController2;
    protected static BrokerController brokerController3;
    protected static List<BrokerController> brokerControllerList;
    protected static Map<String, BrokerController> brokerControllerMap = new HashMap<>();
    protected static List<Object> mqClients = new ArrayList<>();
    protected static boolean debug = false;

    private static final ExecutorService CLOSERS = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work, "closer");
        thread.setDaemon(true);
        return thread;
    });

    static {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        List<BrokerController> all = new ArrayList<>();
        for (String each : System.getProperty("suite.brokers").split(",")) {
            String[] parts = each.split("[@:]");
            BrokerController broker = new RemoteBroker(NAMESRV_ADDR, CLUSTER_NAME, parts[0], parts[1], Integer.parseInt(parts[2]));
            all.add(broker);
            brokerControllerMap.put(parts[0], broker);
        }
        brokerControllerList = List.copyOf(all);
        brokerController1 = all.get(0);
        brokerController2 = all.get(1);
        brokerController3 = all.get(2);
        BROKER1_NAME = brokerController1.getBrokerConfig().getBrokerName();
        BROKER2_NAME = brokerController2.getBrokerConfig().getBrokerName();
        BROKER3_NAME = brokerController3.getBrokerConfig().getBrokerName();
        IntegrationTestBase.initMQAdmin(NAMESRV_ADDR);
        if (Boolean.getBoolean("suite.register")) {
            Registrar.begin(NAMESRV_ADDR, CLUSTER_NAME, all);
        }
    }

    public BaseConf() {
    }

    public static void waitBrokerRegistered(String nameserver, String cluster, int count) {
        Waiting.until(30, () -> MQAdminTestUtils.getCluster(nameserver).getBrokerAddrTable().size() == count);
    }

    /** Waits until what was sent can be consumed: at a node it can at once. False: not within `ms`. */
    public boolean awaitDispatchMs(long ms) {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (brokerControllerList.stream().anyMatch(each -> each.getMessageStore().dispatchBehindBytes() > 0)) {
            if (System.nanoTime() > end) {
                return false;
            }
        }
        return true;
    }

    public static String initTopic() {
        return initTopicWithName(MQRandomUtils.getRandomTopic());
    }

    public static String initTopic(TopicMessageType type) {
        return initTopicWithName(MQRandomUtils.getRandomTopic(), type);
    }

    public static String initTopicWithName(String topic) {
        return initTopicWithName(topic, TopicMessageType.NORMAL);
    }

    public static String initTopicWithName(String topic, TopicMessageType type) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, CLUSTER_NAME, type);
        return topic;
    }

    public static String initTopicOnSampleTopicBroker(String sample) {
        return initTopicOnSampleTopicBroker(MQRandomUtils.getRandomTopic(), sample);
    }

    public static String initTopicOnSampleTopicBroker(String sample, TopicMessageType type) {
        return initTopicOnSampleTopicBroker(MQRandomUtils.getRandomTopic(), sample, type);
    }

    public static String initTopicOnSampleTopicBroker(String topic, String sample) {
        return initTopicOnSampleTopicBroker(topic, sample, TopicMessageType.NORMAL);
    }

    public static String initTopicOnSampleTopicBroker(String topic, String sample, TopicMessageType type) {
        IntegrationTestBase.initTopic(topic, NAMESRV_ADDR, sample, QUEUE_NUMBERS, CQType.SimpleCQ, type);
        return topic;
    }

    public static String initConsumerGroup() {
        return initConsumerGroup(MQRandomUtils.getRandomConsumerGroup());
    }

    public static String initConsumerGroup(String group) {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        return initConsumerGroup(config);
    }

    public static String initConsumerGroup(SubscriptionGroupConfig config) {
        for (BrokerController each : brokerControllerList) {
            ((RemoteBroker) each).putGroup(config);
        }
        return config.getGroupName();
    }

    public static DefaultMQAdminExt getAdmin(String nameserver) {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(3_000);
        admin.setNamesrvAddr(nameserver);
        admin.setPollNameServerInterval(100);
        return kept(admin);
    }

    public static RMQNormalProducer getProducer(String nameserver, String topic) {
        return getProducer(nameserver, topic, false);
    }

    public static RMQNormalProducer getProducer(String nameserver, String topic, boolean tls) {
        return kept(new RMQNormalProducer(nameserver, topic, tls));
    }

    public static RMQNormalProducer getProducer(String nameserver, String topic, String group, String instance) {
        return kept(new RMQNormalProducer(nameserver, topic, group, instance));
    }

    public static RMQTransactionalProducer getTransactionalProducer(String nameserver, String topic, TransactionListener listener) {
        return kept(new RMQTransactionalProducer(nameserver, topic, false, listener));
    }

    public static RMQAsyncSendProducer getAsyncProducer(String nameserver, String topic) {
        return kept(new RMQAsyncSendProducer(nameserver, topic));
    }

    public static RMQNormalConsumer getConsumer(String nameserver, String topic, String filter, AbstractListener listener) {
        return getConsumer(nameserver, topic, filter, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nameserver, String topic, String filter, AbstractListener listener, boolean tls) {
        return getConsumer(nameserver, initConsumerGroup(), topic, filter, listener, tls);
    }

    public static RMQNormalConsumer getConsumer(
            String nameserver, String group, String topic, String filter, AbstractListener listener) {
        return getConsumer(nameserver, group, topic, filter, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nameserver, String group, String topic, String filter, AbstractListener listener, boolean tls) {
        return kept(ConsumerFactory.getRMQNormalConsumer(nameserver, group, topic, filter, listener, tls));
    }

    public static Set<String> getBrokers() {
        return Set.copyOf(brokerControllerMap.keySet());
    }

    public static void shutdown() {
        List<Object> all = List.copyOf(mqClients);
        mqClients.clear();
        shutdown(all);
    }

    /** Shuts each client down in its own thread: a consumer can wait for its listener. */
    public static void shutdown(List<Object> clients) {
        clients.forEach(each -> CLOSERS.execute(() -> close(each)));
    }

    private static void close(Object client) {
        if (client instanceof org.apache.rocketmq.test.clientinterface.MQProducer) {
            ((org.apache.rocketmq.test.clientinterface.MQProducer) client).shutdown();
        } else if (client instanceof MQConsumer) {
            ((MQConsumer) client).shutdown();
        } else if (client instanceof MQAdminExt) {
            ((MQAdminExt) client).shutdown();
        } else if (client instanceof MQProducer) {
            ((MQProducer) client).shutdown();
        } else if (client instanceof org.apache.rocketmq.client.consumer.MQPushConsumer) {
            ((org.apache.rocketmq.client.consumer.MQPushConsumer) client).shutdown();
        } else if (client instanceof org.apache.rocketmq.client.consumer.MQPullConsumer) {
            ((org.apache.rocketmq.client.consumer.MQPullConsumer) client).shutdown();
        }
    }

    private static <T> T kept(T client) {
        mqClients.add(client);
        return client;
    }
}
