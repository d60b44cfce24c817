/** What the address of every user ends with, so what an answer about any of them contains. */
export const EMAIL_DOMAIN = '@users.example.test';

/** A made-up user, the same for all variants. */
export function userOf(index: number): { id: string; email: string; name: string } {
  return { id: `u-${index}`, email: `user-${index}${EMAIL_DOMAIN}`, name: `User ${index}` };
}

/** Does something for so many users, ten at a time, and gives what came of it in their order. */
export async function forUsers<Result>(
  count: number,
  work: (index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let first = 0; first < count; first += 10) {
    const indexes = Array.from({ length: Math.min(10, count - first) }, (_, nth) => first + nth);
    results.push(...(await Promise.all(indexes.map(work))));
  }
  return results;
}
