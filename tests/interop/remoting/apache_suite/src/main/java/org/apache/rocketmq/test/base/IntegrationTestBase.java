package org.apache.rocketmq.test.base;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Creates topics by the admin client. Starts no broker: tests that need their own broker are left out. */
public class IntegrationTestBase {
    private static final int CREATE_S = 30;
    private static final DefaultMQAdminExt ADMIN = new DefaultMQAdminExt();

    public static BrokerController createAndStartBroker(MessageStoreConfig store, BrokerConfig broker) {
        throw new UnsupportedOperationException("brokers of this suite are outside of its process");
    }

    public static boolean initTopic(String topic, String nameserver, String place, CQType kind) {
        return initTopic(topic, nameserver, place, BaseConf.QUEUE_NUMBERS, kind);
    }

    public static boolean initTopic(String topic, String nameserver, String place, TopicMessageType type) {
        return initTopic(topic, nameserver, place, BaseConf.QUEUE_NUMBERS, CQType.SimpleCQ, type);
    }

    public static boolean initTopic(String topic, String nameserver, String place, int queues, CQType kind) {
        return initTopic(topic, nameserver, place, queues, kind, TopicMessageType.NORMAL);
    }

    /** The topic is created on the brokers of topic `place`. Clusters and brokers have topics with their names. */
    public static boolean initTopic(
            String topic, String nameserver, String place, int queues, CQType kind, TopicMessageType type) {
        Map<String, String> attributes = new HashMap<>();
        if (kind != CQType.SimpleCQ) {
            attributes.put("+" + TopicAttributes.QUEUE_TYPE_ATTRIBUTE.getName(), kind.toString());
        }
        if (type != TopicMessageType.NORMAL) {
            attributes.put("+" + TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE.getName(), type.toString());
        }
        boolean made = MQAdminTestUtils.createTopic(nameserver, place, topic, queues, attributes, CREATE_S);
        Waiting.until(CREATE_S, () -> brokers(topic) >= brokers(place));
        return made;
    }

    /** Number of brokers in the topic's route: brokers register the topic one after the other. */
    private static int brokers(String topic) throws Exception {
        return ADMIN.examineTopicRouteInfo(topic).getBrokerDatas().size();
    }

    public static void initMQAdmin(String nameserver) {
        try {
            MQAdminTestUtils.startAdmin(nameserver);
            ADMIN.setNamesrvAddr(nameserver);
            ADMIN.setInstanceName("topics");
            ADMIN.start();
        } catch (MQClientException error) {
            throw new IllegalStateException(error);
        }
    }
}
