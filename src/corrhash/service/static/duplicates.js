// The page of duplicates: groups of items that show the same picture. Data is inserted as text.
import { byId, captionOf, make, nameOf } from "./results.js";

const RETRY = 1000; // milliseconds until the next request while pictures are compared
let nextOffset = 0;

function makeItem(item) {
  const card = make("li", "card");
  const link = make("a", "open");
  link.href = `/?${new URLSearchParams({ like: item.key })}`;
  link.title = `Find similar to ${nameOf(item.key)}`;
  if (item.thumbnail) {
    const picture = make("img");
    picture.src = item.thumbnail;
    picture.alt = captionOf(item);
    picture.loading = "lazy";
    link.append(picture);
  } else link.append(make("span", "quote", captionOf(item)));
  const body = make("div", "body");
  body.append(make("p", "key", item.key));
  card.append(link, body);
  return card;
}

function makeGroup(group) {
  const section = make("section");
  const similarity = group.similarity === null ? "" : `, similarity ${group.similarity.toFixed(3)}`;
  section.append(make("h2", "", `${group.n_items} pictures${similarity}`));
  const list = make("ul", "grid");
  list.append(...group.items.map(makeItem));
  section.append(list);
  return section;
}

async function load() {
  let answer;
  try {
    const response = await fetch(`/api/v1/duplicates?offset=${nextOffset}`);
    answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
  } catch (error) {
    byId("status").textContent = error instanceof TypeError
      ? "Cannot reach the service. Check that it is running." : error.message;
    byId("status").className = "notice wrong";
    return;
  }
  if (!answer.ready) {
    byId("status").textContent = "Comparing pictures …";
    setTimeout(load, RETRY);
    return;
  }
  const { total } = answer;
  byId("status").textContent = total ? `${total} ${total === 1 ? "group" : "groups"}`
    : "No picture occurs more than once.";
  byId("groups").append(...answer.groups.map(makeGroup));
  nextOffset = answer.next_offset;
  byId("more").hidden = nextOffset === null;
}

byId("more").addEventListener("click", load);
load();
