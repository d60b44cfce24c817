type Point = { latitude: number | null; longitude: number | null };

const METRES_PER_DEGREE = 111_320;

/**
 * How far apart two points are in metres, within a per cent over the few kilometres that matter here;
 * undefined where one of them is not known.
 */
export function distanceMetres(one: Point, other: Point): number | undefined {
  const { latitude: lat1, longitude: lon1 } = one;
  const { latitude: lat2, longitude: lon2 } = other;
  if (lat1 === null || lon1 === null || lat2 === null || lon2 === null) return undefined;
  const middle = ((lat1 + lat2) / 2) * (Math.PI / 180);
  const east = (lon1 - lon2) * Math.cos(middle);
  return METRES_PER_DEGREE * Math.hypot(lat1 - lat2, east);
}
