import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * A mirror's MBeans in Spark's JVM. Their values come from the driver, all that changed in one call of update.
 *
 * Janino compiles it there, as Spark has it do with its own code: no lambdas, and what a collection holds is cast.
 */
public final class MirrorBeans {
    private static final String FIELD = "\u001f";
    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    private final Map known = new HashMap();

    /** Each line is a bean's name, then attribute and value by turns; a name alone removes the bean. */
    public synchronized void update(String lines) throws JMException {
        String[] each = lines.split("\n");
        for (int i = 0; i < each.length; i++) {
            String[] fields = each[i].split(FIELD);
            Bean bean = (Bean) known.get(fields[0]);
            if (fields.length == 1) {
                remove(fields[0]);
            } else if (bean == null) {
                add(fields[0], new Bean(fields));
            } else {
                bean.take(fields);
            }
        }
    }

    private void add(String name, Bean bean) throws JMException {
        ObjectName named = new ObjectName(name);
        server.registerMBean(bean, named);
        known.put(name, bean);
    }

    private void remove(String name) throws JMException {
        if (known.remove(name) != null) {
            server.unregisterMBean(new ObjectName(name));
        }
    }

    /** Numbers are doubles; a text, which begins with a quotation mark, says that it is one, as Kafka's MBeans do. */
    private static final class Bean implements DynamicMBean {
        private volatile Map values;

        Bean(String[] fields) {
            take(fields);
        }

        void take(String[] fields) {
            Map taken = new LinkedHashMap();
            for (int i = 1; i + 1 < fields.length; i += 2) {
                taken.put(fields[i], valueOf(fields[i + 1]));
            }
            values = taken;
        }

        private static Object valueOf(String text) {
            return text.startsWith("\"") ? (Object) text.substring(1) : (Object) Double.valueOf(text);
        }

        public Object getAttribute(String name) throws AttributeNotFoundException {
            Object value = values.get(name);
            if (value == null) {
                throw new AttributeNotFoundException("Could not find attribute " + name);
            }
            return value;
        }

        public AttributeList getAttributes(String[] names) {
            AttributeList found = new AttributeList();
            Map now = values;
            for (int i = 0; i < names.length; i++) {
                if (now.containsKey(names[i])) {
                    found.add(new Attribute(names[i], now.get(names[i])));
                }
            }
            return found;
        }

        public MBeanInfo getMBeanInfo() {
            Map now = values;
            MBeanAttributeInfo[] attributes = new MBeanAttributeInfo[now.size()];
            int at = 0;
            for (Iterator each = now.keySet().iterator(); each.hasNext();) {
                attributes[at++] = new MBeanAttributeInfo((String) each.next(), "double", "", true, false, false);
            }
            return new MBeanInfo("MirrorBeans", "", attributes, null, null, null);
        }

        public void setAttribute(Attribute attribute) {
            throw new UnsupportedOperationException("Set not allowed.");
        }

        public AttributeList setAttributes(AttributeList attributes) {
            throw new UnsupportedOperationException("Set not allowed.");
        }

        public Object invoke(String action, Object[] arguments, String[] signature) {
            throw new UnsupportedOperationException("invoke not allowed");
        }
    }
}
