// What the site's search puts first: Sphinx's scores, and guides before pages of the reference that have a word as well in their title.
var Scorer = {
  score: (result) => result[4] + (result[0].startsWith("how-to/") ? 5 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
