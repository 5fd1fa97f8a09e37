/** Lets the service processes of one supervisor (`serve --processes`) listen on the same port. */
import cluster from 'node:cluster';

/**
 * Options of listen(). Each process has its own socket, among which the kernel distributes connections, so a killed process takes only its
 * own connections with it (with node:cluster's shared sockets, a connection in transit to it would hang).
 */
export const SHARED_PORT: { reusePort?: true } = cluster.isWorker ? { reusePort: true } : {};
