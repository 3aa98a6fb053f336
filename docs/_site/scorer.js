// How the search orders what it has found: by the words in the names of pages, and users' pages before all others.
// Sphinx scores a heading as high as a title, and breaks ties by the alphabet.
const searched = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\W+/).filter(Boolean);
const behind = [["internals/", 14], ["reference/errors", 8], ["gallery/", 2], ["guides/from-", 2], ["guides/coming-from", 2]];

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, , , score]) => {
    const name = `${page} ${title}`.toLowerCase();
    const found = searched.filter((word) => name.includes(word)).length;
    const [, less] = behind.find(([folder]) => page.startsWith(folder)) || ["", 0];
    return score + (10 * found) / (searched.length || 1) - less;
  },
};
