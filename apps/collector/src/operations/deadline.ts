/** How long a request of an admin may work: less than the minute that clients, proxies and a shutdown wait. */
export const DEADLINE_MS = 50_000;
