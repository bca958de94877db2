// Addresses within the page: a view, and in it a flow, a topic, a partition. They can be sent to a colleague.

export const placeOf = (view, ...names) => `#${[view, ...names].map(encodeURIComponent).join("/")}`;

/** [view, flow?, topic?, partition?] of the address that is shown. */
export function readPlace() {
  try {
    return location.hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}
