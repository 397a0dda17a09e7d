package org.apache.rocketmq.test.base;

import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.test.util.MQRandomUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Takes the place of Apache's class of this name, which starts a name server and three brokers. The place has one node, which
 * runs already: its name server is the property "namesrv", and all three brokers are the one broker of its route.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR;
    protected static final String BROKER1_NAME;
    protected static final BrokerController brokerController1;
    protected static final BrokerController brokerController2;
    protected static final BrokerController brokerController3;
    private static final String CLUSTER = "DefaultCluster";
    /** A topic is created in each of three brokers with eight queues: as many in one. */
    private static final int QUEUES = 24;
    private static final DefaultMQAdminExt ADMIN = new DefaultMQAdminExt(10_000);

    static {
        NAMESRV_ADDR = System.getProperty("namesrv");
        System.setProperty("rocketmq.namesrv.addr", NAMESRV_ADDR);
        ADMIN.setNamesrvAddr(NAMESRV_ADDR);
        try {
            ADMIN.start();
            var broker = ADMIN.examineBrokerClusterInfo().getBrokerAddrTable().values().iterator().next();
            BROKER1_NAME = broker.getBrokerName();
            brokerController1 = new RemoteBroker(ADMIN, broker.selectBrokerAddr());
        } catch (Exception wrong) {
            throw new ExceptionInInitializerError(wrong);
        }
        brokerController2 = brokerController1;
        brokerController3 = brokerController1;
    }

    public static String initTopic() {
        return initTopic(TopicMessageType.NORMAL);
    }

    public static String initTopic(TopicMessageType type) {
        return create(type, QUEUES);
    }

    public static String initTopicOnSampleTopicBroker(String broker) {
        return initTopicOnSampleTopicBroker(broker, TopicMessageType.NORMAL);
    }

    public static String initTopicOnSampleTopicBroker(String broker, TopicMessageType type) {
        return create(type, QUEUES / 3);
    }

    public static String initConsumerGroup(String group) {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        brokerController1.getSubscriptionGroupManager().updateSubscriptionGroupConfig(config);
        return group;
    }

    private static String create(TopicMessageType type, int queues) {
        String topic = MQRandomUtils.getRandomTopic();
        try {
            ADMIN.createTopic(CLUSTER, topic, queues, Map.of("+message.type", type.getValue()));
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
        return topic;
    }
}
