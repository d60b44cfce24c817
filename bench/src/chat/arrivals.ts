/** Arrival of concurrent messages: spread over a second, or all at once. */
export const ARRIVALS = ['within a second', 'all at once'] as const;
export type Arrival = (typeof ARRIVALS)[number];

/** From the first message to the last one. */
export const withinMs: Record<Arrival, number> = { 'within a second': 1000, 'all at once': 0 };
