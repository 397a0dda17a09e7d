package org.apache.rocketmq.test.base;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.pop.orderly.ConsumerOrderInfoManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * A broker object for the tests that answers their queries by requests to a node, as far as the protocol allows.
 * Changes of its configuration have no effect, except the order of priorities, and some of POP and timers at
 * brokers of Apache's.
 */
final class RemoteBroker extends BrokerController {
    private static final long TIMEOUT_MS = 3_000;

    private final DefaultMQAdminExt admin;
    private final MessageStore store;
    private final TopicConfigManager topics = new Topics();
    private final ConsumerOffsetManager offsets = new Offsets();
    private final ConsumerOrderInfoManager orders = orders();

    RemoteBroker(String nameserver, String cluster, String name, String host, int port) {
        this(nameserver, cluster, name, host, port, new DefaultMQAdminExt(TIMEOUT_MS));
    }

    private RemoteBroker(String nameserver, String cluster, String name, String host, int port, DefaultMQAdminExt admin) {
        super(brokerConfig(cluster, name, host, port, admin), serverConfig(port), null, storeSettings(host + ":" + port, admin));
        this.admin = admin;
        admin.setNamesrvAddr(nameserver);
        admin.setInstanceName(UUID.randomUUID().toString());
        try {
            admin.start();
            store = new Store(name, getBrokerConfig());
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static BrokerConfig brokerConfig(String cluster, String name, String host, int port, DefaultMQAdminExt admin) {
        String address = host + ":" + port;
        BrokerConfig config = new BrokerConfig() {
            @Override
            public void setPriorityOrderAsc(boolean wanted) {
                set(admin, address, "priorityOrderAsc", wanted);
            }

            @Override
            public void setPopFromRetryProbabilityForPriority(int wanted) {
                set(admin, address, "popFromRetryProbabilityForPriority", wanted);
            }

            @Override
            public void setUseSeparateRetryQueue(boolean wanted) {
                setAtApache(admin, address, "useSeparateRetryQueue", wanted);
            }

            @Override
            public void setPopConsumerKVServiceEnable(boolean wanted) {
                setAtApache(admin, address, "popConsumerKVServiceEnable", wanted);
            }

            @Override
            public void setEnablePopBufferMerge(boolean wanted) {
                setAtApache(admin, address, "enablePopBufferMerge", wanted);
            }

            @Override
            public void setUseServerSideResetOffset(boolean wanted) {
                setAtApache(admin, address, "useServerSideResetOffset", wanted);
            }
        };
        config.setBrokerClusterName(cluster);
        config.setBrokerName(name);
        config.setBrokerIP1(host);
        return config;
    }

    private static MessageStoreConfig storeSettings(String address, DefaultMQAdminExt admin) {
        return new MessageStoreConfig() {
            @Override
            public void setAppendTopicForTimerDeleteKey(boolean wanted) {
                setAtApache(admin, address, "appendTopicForTimerDeleteKey", wanted);
            }
        };
    }

    /** Nodes have no such settings. */
    private static void setAtApache(DefaultMQAdminExt admin, String address, String key, boolean wanted) {
        if (!Boolean.getBoolean("suite.register")) {
            set(admin, address, key, wanted);
        }
    }

    private static void set(DefaultMQAdminExt admin, String address, String key, Object wanted) {
        Properties properties = new Properties();
        properties.setProperty(key, wanted.toString());
        try {
            admin.updateBrokerConfig(address, properties);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static NettyServerConfig serverConfig(int port) {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(port);
        return config;
    }

    @Override
    public MessageStore getMessageStore() {
        return store;
    }

    @Override
    public TopicConfigManager getTopicConfigManager() {
        return topics == null ? super.getTopicConfigManager() : topics;
    }

    @Override
    public ConsumerOffsetManager getConsumerOffsetManager() {
        return offsets == null ? super.getConsumerOffsetManager() : offsets;
    }

    @Override
    public ConsumerOrderInfoManager getConsumerOrderInfoManager() {
        return orders == null ? super.getConsumerOrderInfoManager() : orders;
    }

    void putGroup(SubscriptionGroupConfig config) {
        try {
            admin.createAndUpdateSubscriptionGroupConfig(getBrokerAddr(), config);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private MessageQueue queue(String topic, int number) {
        return new MessageQueue(topic, getBrokerConfig().getBrokerName(), number);
    }

    private OffsetWrapper progress(String group, String topic, int number) {
        try {
            return admin.examineConsumeStats(getBrokerAddr(), group, topic, TIMEOUT_MS).getOffsetTable().get(queue(topic, number));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Bounds of queues, from the node. */
    private final class Store extends DefaultMessageStore {
        Store(String name, BrokerConfig broker) throws IOException {
            super(storeConfig(name), null, null, broker, new ConcurrentHashMap<>());
        }

        @Override
        public long getMaxOffsetInQueue(String topic, int number) {
            try {
                return admin.maxOffset(queue(topic, number));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public long getMinOffsetInQueue(String topic, int number) {
            try {
                return admin.minOffset(queue(topic, number));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        /** What the broker has not shared out to its queues yet. A node has no such figure: a confirmed send can be read at once. */
        @Override
        public long dispatchBehindBytes() {
            try {
                return Long.parseLong(admin.fetchBrokerRuntimeStats(getBrokerAddr()).getTable().getOrDefault("dispatchBehindBytes", "0"));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static MessageStoreConfig storeConfig(String name) throws IOException {
        MessageStoreConfig config = new MessageStoreConfig();
        String folder = Files.createTempDirectory(name).toString();
        config.setStorePathRootDir(folder);
        config.setStorePathCommitLog(folder + "/commitlog");
        return config;
    }

    private final class Topics extends TopicConfigManager {
        @Override
        public ConcurrentMap<String, TopicConfig> getTopicConfigTable() {
            try {
                return admin.getAllTopicConfig(getBrokerAddr(), TIMEOUT_MS).getTopicConfigTable();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** Positions of groups, from the node; -1 without a position, as in a broker. */
    private final class Offsets extends ConsumerOffsetManager {
        @Override
        public long queryOffset(String group, String topic, int number) {
            QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setQueueId(number);
            header.setSetZeroIfNotFound(false);
            try {
                return admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl()
                    .queryConsumerOffset(getBrokerAddr(), header, TIMEOUT_MS);
            } catch (MQBrokerException error) {
                if (error.getResponseCode() == ResponseCode.QUERY_NOT_FOUND) {
                    return -1;
                }
                throw new IllegalStateException(error);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public long queryPullOffset(String group, String topic, int number) {
            return progress(group, topic, number).getPullOffset();
        }
    }

    /** `checkBlock`: an ordered queue is blocked while messages are in flight. */
    private ConsumerOrderInfoManager orders() {
        return (ConsumerOrderInfoManager) Proxy.newProxyInstance(
            RemoteBroker.class.getClassLoader(), new Class<?>[] {ConsumerOrderInfoManager.class}, (proxy, method, asked) -> {
                if (!method.getName().equals("checkBlock")) {
                    throw new UnsupportedOperationException(method.getName());
                }
                OffsetWrapper now = progress((String) asked[2], (String) asked[1], (Integer) asked[3]);
                return now.getPullOffset() > now.getConsumerOffset();
            });
    }
}
