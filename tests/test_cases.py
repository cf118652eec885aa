"""Which test stands for which of the cases that real users met elsewhere, and that each still exists.

A case is covered by tests of its whole kind; the table says where to look and where to add the next one.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = {
    1: ("the same token twice", "test_figures test_case_1_equal_tokens_keep_their_own_rows_and_columns",
        "test_tables test_equal_tokens_stay_apart", "browser/test_app test_the_same_token_twice_stays_apart"),
    2: ("masked cells", "test_figures test_case_2_blocked_cells_are_hatched_and_say_so",
        "browser/test_board test_masked_and_far_cells_are_marked"),
    3: ("one huge number", "test_figures test_case_3_one_huge_number_leaves_the_others_readable",
        "test_theme test_one_huge_number_leaves_the_others_readable_and_is_marked",
        "test_grids test_a_number_beyond_the_colours_is_marked_and_none_that_is_not_finite"),
    4: ("one stated colour range",
        "test_figures test_case_4_scores_before_and_after_scaling_share_one_stated_range"),
    5: ("contrast in both themes", "test_theme test_text_on_every_colour_step_keeps_four_and_a_half_to_one",
        "test_figures test_case_5_numbers_keep_their_contrast_on_every_colour"),
    6: ("awkward tokens", "test_figures test_case_6_a_token_is_never_read_as_markup",
        "browser/test_app test_tokens_are_shown_literally_everywhere",
        "browser/test_board test_awkward_tokens_are_shown_literally"),
    7: ("pointing at a cell", "test_figures test_case_7_cell_0_2_belongs_to_query_1_and_key_3",
        "browser/test_board test_hovering_outlines_the_query_row_and_the_key_column",
        "browser/test_app test_the_arithmetic_of_a_selected_cell_is_that_of_the_core"),
    8: ("64 and 128 tokens", "test_figures test_case_8_large_maps_are_coarser_above_128_cells_a_side",
        "test_pages test_long_sequences_are_drawn_and_counted",
        "browser/test_app test_the_large_heat_maps_answer"),
    9: ("fast edits", "test_desk test_four_edits_in_one_message_all_stay",
        "browser/test_app test_fast_edits_in_turn_all_stay",
        "browser/test_board test_ten_fast_edits_of_one_cell_show_the_last"),
    10: ("Q = K, edit Q", "test_bench test_an_edit_of_q_leaves_k_alone_even_where_they_are_equal",
         "test_pages test_choosing_an_example_where_q_is_k_and_editing_q_leaves_k"),
    11: ("reset", "test_desk test_reset_brings_the_example_back_and_can_be_undone",
         "test_pages test_reset_is_seen_by_every_control",
         "browser/test_app test_reset_really_brings_the_example_back"),
    12: ("typed numbers", "test_numbers test_a_number_means_what_a_reader_means_by_it",
         "test_desk test_anything_else_is_refused_by_cell_and_the_old_number_stays",
         "browser/test_app test_a_typed_number_means_what_it_says",
         "browser/test_app test_a_refused_number_is_named_in_place_and_the_old_one_stays"),
    13: ("pasted blocks", "test_desk test_a_pasted_block_fills_what_fits_and_says_what_did_not",
         "browser/test_app test_a_block_from_a_spreadsheet_is_pasted"),
    14: ("a number left in its cell",
         "browser/test_app test_a_number_left_in_its_cell_is_taken_when_a_button_is_pressed",
         "browser/test_app test_a_number_left_in_its_cell_is_taken_when_a_link_is_followed"),
    15: ("shrinking and growing", "test_bench test_shrinking_and_growing_again_gives_the_same_numbers",
         "test_pages test_the_selection_moves_into_range_when_the_sequence_shrinks",
         "test_pages test_sliders_keep_what_is_inside_and_growing_again_gives_the_same_numbers"),
    16: ("damaged links", "test_links test_no_link_whatsoever_raises",
         "test_links test_what_is_not_understood_is_named_in_one_sentence_and_the_example_stands",
         "test_pages test_a_damaged_link_says_so_in_one_sentence_on_every_page",
         "browser/test_app test_a_link_with_markup_in_it_is_told_and_runs_nothing"),
    17: ("short links", "test_links test_with_every_number_edited_the_link_stays_below_2000_characters"),
    18: ("reload, link, another page",
         "browser/test_app test_reloading_and_going_elsewhere_and_back_loses_nothing",
         "browser/test_app test_a_link_opened_on_a_fresh_server_shows_the_same_numbers",
         "test_links test_a_link_gives_back_exactly_the_bench_it_was_made_from"),
    19: ("quick steps of a slider",
         "browser/test_app test_ten_quick_steps_of_a_slider_end_on_the_right_number"),
    20: ("equal scores", "test_pages test_thirds_add_up_to_one_and_the_page_says_that_cells_are_rounded",
         "test_attention test_equal_scores_share_equally",
         "test_numbers test_a_number_is_shown_shortly_and_with_a_real_minus"),
    21: ("a row that may look nowhere", "test_attention test_a_query_that_may_look_nowhere_gets_zeros",
         "browser/test_app test_a_mask_is_drawn_cell_by_cell_and_an_empty_row_says_so"),
    22: ("more of one than of the other", "test_masks test_the_alignment_is_named_when_there_are_more_of_one",
         "test_comparison test_the_summary_names_the_alignment_when_there_are_more_keys_than_queries"),
    23: ("shapes that do not fit", "test_attention test_what_does_not_fit_is_refused_in_a_sentence"),
    24: ("two readers", "test_pages test_two_sessions_know_nothing_of_each_other",
         "browser/test_app test_two_readers_do_not_see_each_others_numbers"),
    25: ("no network", "test_serving test_a_page_from_elsewhere_is_refused_and_nothing_is_asked_outside",
         "test_board_data test_the_program_fetches_nothing_and_writes_no_html"),
    26: ("keyboard only", "browser/test_app test_every_action_of_the_walk_through_can_be_done_by_keyboard",
         "browser/test_board test_everything_can_be_done_by_keyboard"),
    27: ("a screen reader", "browser/test_app test_a_screen_reader_finds_names_headers_values_and_places",
         "browser/test_app test_there_is_no_accessibility_fault_of_ours"),
    28: ("on paper", "browser/test_app test_on_paper_it_is_a_worksheet_without_the_sidebar"),
    29: ("a telephone", "browser/test_app test_a_telephone_never_scrolls_sideways_and_takes_numbers",
         "browser/test_board test_a_second_tap_opens_the_editor_and_cells_are_large_enough_to_touch"),
    30: ("two server processes", "test_links test_the_same_link_in_two_processes_gives_identical_numbers",
         "test_examples test_the_numbers_are_the_same_on_every_machine"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_tests_of_a_case_exist(case):
    _, *tests = CASES[case]
    assert tests
    for test in tests:
        file, name = test.split()
        tree = ast.parse((HERE / f"{file}.py").read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test
