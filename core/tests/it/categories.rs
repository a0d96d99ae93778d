//! The table of categories, and what else must know each of them.

use highwater_core::report::ByCategory;
use highwater_core::trace::Category;

#[test]
fn each_has_a_place_a_key_and_colours() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../styles");
    let style = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    let (tokens, base, alive) = (style("tokens.css"), style("base.css"), style("alive.css"));
    let sums = serde_json::to_value(ByCategory::default()).unwrap();
    assert_eq!(sums.as_object().unwrap().len(), Category::COUNT);
    for (place, category) in Category::ALL.into_iter().enumerate() {
        let of_places = Category::ALL.iter().position(|&other| other == category);
        assert_eq!(of_places, Some(place), "{category:?} stands twice in a stack");
        assert!(sums.get(category.name()).is_some(), "{category:?}");
        assert_eq!(serde_json::to_value(category).unwrap(), category.name());
        let color = category.color();
        assert_eq!(tokens.matches(&format!("--{color}:")).count(), 1, "{color} in tokens.css");
        assert!(tokens.contains(&format!("@property --{color} ")), "{color} in tokens.css");
        assert!(base.contains(&format!(".{color} ")), "{color} in base.css");
        assert!(alive.contains(&format!(".{color}-bar ")), "{color} in alive.css");
    }
}
